"""The order of plan, execute and commit, with a program that the test writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from lakewarden.executors.contract import (
    Assignment,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Plan,
    Refused,
    Steps,
    Succeeded,
    Yielded,
)
from lakewarden.executors.worker.runs import carry_out
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import LocalStorage

PLAN = Plan(instant="20260101000000000", file_groups=3)
ASSIGNMENT = Assignment(
    run=RunId("run-1"), epoch=1, table=TableId("t"), format="f", location="/t", service=Service.COMPACTION
)

LOCAL = LocalStorage()


class Written:
    """A program that records its calls, and fails where the test says."""

    def __init__(self, *, fails: Mapping[str, Exception] | None = None, plan: Plan | None = PLAN) -> None:
        self.done: list[str] = []
        self._fails = fails or {}
        self._plan = plan

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        self._do("open")
        try:
            yield self
        except Exception:
            self.done.append("abort")
            raise
        finally:
            self._do("close")

    def plan(self) -> Plan | None:
        self._do("plan")
        return self._plan

    def execute(self, plan: Plan) -> None:
        self._do("execute")

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        self._do("commit")
        return {"files": 3}

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what in self._fails:
            raise self._fails[what]


def _grant_all(step: Step, plan: Plan | None) -> Granted | Refused:
    return Granted()


def test_every_step_comes_after_its_permit() -> None:
    """Questions and steps alternate. From the second question on the plan is included."""
    program = Written()

    def ask(step: Step, plan: Plan | None) -> Granted | Refused:
        program.done.append(f"ask {step} {plan.instant if plan else None}")
        return Granted()

    outcome = carry_out(program, None, ASSIGNMENT, LOCAL, ask)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files"] == 3
    assert program.done == [
        "ask plan None",
        "open",
        "plan",
        f"ask execute {PLAN.instant}",
        "execute",
        f"ask commit {PLAN.instant}",
        "commit",
        "close",
    ]


def test_a_success_tells_how_long_each_step_took_without_its_waiting() -> None:
    """The times of planning and committing bound how long the table's lock was held. The wait for a permit does not
    count.
    """
    clock = ManualClock()
    seconds = {"plan": 1.5, "execute": 60, "commit": 0.25}

    class Slow(Written):
        def _do(self, what: str) -> None:
            clock.advance(timedelta(seconds=seconds.get(what, 7)))

    def ask(step: Step, plan: Plan | None) -> Granted | Refused:
        clock.advance(timedelta(seconds=100))
        return Granted()

    outcome = carry_out(Slow(), None, ASSIGNMENT, LOCAL, ask, clock=clock)

    assert outcome == Succeeded(
        figures={"files": 3, "plan_seconds": 1.5, "execute_seconds": 60, "commit_seconds": 0.25}
    )


def test_without_a_plan_there_is_nothing_to_do() -> None:
    """If a program plans nothing, no further step is asked for."""
    program = Written(plan=None)

    assert isinstance(carry_out(program, None, ASSIGNMENT, LOCAL, _grant_all), NothingToDo)
    assert program.done == ["open", "plan", "close"]


@given(refused=st.sampled_from(Step), failing=st.sampled_from(["open", "plan", "execute", "commit", "close"]))
def test_nothing_after_a_refusal_is_done(refused: Step, failing: str) -> None:
    """Whatever would fail, a refused step and the steps after it are never taken. What was opened is closed."""
    program = Written(fails={failing: TemporaryError("no")})

    carry_out(program, None, ASSIGNMENT, LOCAL, lambda s, p: Refused(reason="no") if s is refused else Granted())

    taken = [step for step in program.done if step in list(Step)]
    assert taken == list(Step)[: len(taken)]
    assert refused not in taken
    assert program.done.count("close") == program.done.count("open") - (failing == "open" and "open" in program.done)


@pytest.mark.parametrize("where", ["plan", "execute", "commit"])
def test_who_steps_back_yields_for_as_long_as_it_says(where: str) -> None:
    """A program that yields to a writer is aborted, and the run has not failed."""
    program = Written(fails={where: YieldError("a writer is at it", delay=timedelta(minutes=3))})

    outcome = carry_out(program, None, ASSIGNMENT, LOCAL, _grant_all)

    assert outcome == Yielded(reason="a writer is at it", delay=timedelta(minutes=3))
    assert program.done[-2:] == ["abort", "close"]


def test_a_refusal_aborts_and_yields_with_its_reason() -> None:
    """The program gets the refusal before it is closed. The outcome has the reason."""
    program = Written()

    outcome = carry_out(
        program,
        None,
        ASSIGNMENT,
        LOCAL,
        lambda s, p: Refused(reason="a writer is busy") if s is Step.COMMIT else Granted(),
    )

    assert outcome == Yielded(reason="a writer is busy")
    assert program.done == ["open", "plan", "execute", "abort", "close"]


@pytest.mark.parametrize(
    ("where", "error", "expected"),
    [
        ("open", PermanentError("no table"), (FailureKind.PERMANENT, Step.PLAN)),
        ("plan", TemporaryError("lock", delay=timedelta(seconds=15)), (FailureKind.TEMPORARY, Step.PLAN)),
        ("plan", ValueError("a bug"), (FailureKind.TEMPORARY, Step.PLAN)),
        ("execute", UnknownError("JVM gone"), (FailureKind.UNKNOWN, Step.EXECUTE)),
        ("execute", OSError("disk"), (FailureKind.TEMPORARY, Step.EXECUTE)),
        ("commit", TemporaryError("a conflict, before the commit"), (FailureKind.TEMPORARY, Step.COMMIT)),
        ("commit", PermanentError("a guard, before the commit"), (FailureKind.PERMANENT, Step.COMMIT)),
        ("commit", UnknownError("cut off"), (FailureKind.UNKNOWN, Step.COMMIT)),
        ("commit", OSError("who knows when"), (FailureKind.UNKNOWN, Step.COMMIT)),
        ("close", TemporaryError("after the commit"), (FailureKind.UNKNOWN, Step.COMMIT)),
    ],
)
def test_an_error_ends_the_run_by_what_the_daemon_does_next(
    where: str, error: Exception, expected: tuple[FailureKind, Step]
) -> None:
    """After the commit was granted, an error is unknown unless it clearly means "not committed"."""
    outcome = carry_out(Written(fails={where: error}), None, ASSIGNMENT, LOCAL, _grant_all)

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == expected
    assert str(error) in outcome.reason
    if isinstance(error, TemporaryError) and outcome.kind is FailureKind.TEMPORARY:
        assert outcome.delay == error.delay


def test_options_that_are_invalid_fail_for_good_and_are_named() -> None:
    """A retry cannot help. The error names the wrong option."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")
        retained: int = 1

    class Choosy(Written):
        @contextlib.contextmanager
        def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
            Options.model_validate({"retained": "many", "retaned": 2})
            yield self

    outcome = carry_out(Choosy(), None, ASSIGNMENT, LOCAL, _grant_all)

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == (FailureKind.PERMANENT, Step.PLAN)
    assert outcome.reason == (
        "the options are invalid: retained: Input should be a valid integer, unable to parse string as an integer; "
        "retaned: Extra inputs are not permitted"
    )
