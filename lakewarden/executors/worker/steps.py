"""The one ladder every run climbs: leave to plan, plan, leave to execute, execute, leave to commit, commit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, assert_never

import structlog
from pydantic import ValidationError

from lakewarden.executors.contract import (
    Assignment,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Outcome,
    Plan,
    Program,
    Refused,
    Step,
    Succeeded,
    Yielded,
)
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.executors.witness import WITNESS
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.ports import Storage

log = structlog.get_logger(__name__)


class Question(NamedTuple):
    """The step a run asks leave for, and what it is going to do (None before planning)."""

    step: Step
    plan: Plan | None


Climb = Generator[Question, Granted | Refused, Outcome]


def carry_out(
    program: Program,
    session: Any,
    assignment: Assignment,
    storage: Storage,
    ask: Callable[[Step, Plan | None], Granted | Refused],
    *,
    clock: Clock | None = None,
) -> Outcome:
    """Carry out one run and return how it ended. `ask` blocks until its step is granted or refused."""
    ladder = climb(program, session, assignment, storage, clock=clock)
    question = next(ladder)
    while True:
        try:
            question = ladder.send(ask(*question))
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def climb(
    program: Program, session: Any, assignment: Assignment, storage: Storage, *, clock: Clock | None = None
) -> Climb:
    """Yield each question, take its permit, do the step; return the outcome, whatever is raised on the way.

    A refusal leaves the program's bracket by an exception, so that a program can tell an abort from an ending.
    A success tells how long each step took (`plan_seconds`, ...): the table's lock is held within planning and
    committing, so those bound from above how long writers may have had to wait for it.
    """
    step, committed = Step.PLAN, False
    at = functools.partial(FAULTS.reach, run=assignment.run, service=assignment.service)
    watch = _Stopwatch(clock or SystemClock())
    try:
        _require((yield Question(Step.PLAN, None)))
        with program.open(session, assignment, storage) as steps:
            with watch.measures(Step.PLAN):
                plan = steps.plan()
            if plan is None:
                return NothingToDo(reason="the format found nothing to plan")
            if isinstance(plan, NothingToDo):
                return plan
            at(Point.PLANNED)
            _require((yield Question(Step.EXECUTE, plan)))
            step = Step.EXECUTE
            at(Point.EXECUTING)
            with watch.measures(Step.EXECUTE), WITNESS.sees(Step.EXECUTE, plan, assignment):
                steps.execute(plan)
            at(Point.EXECUTED)
            _require((yield Question(Step.COMMIT, plan)))
            step = Step.COMMIT
            with watch.measures(Step.COMMIT), WITNESS.sees(Step.COMMIT, plan, assignment):
                figures = steps.commit(plan)
            committed = True
            at(Point.COMMITTED)
        return Succeeded(figures={**figures, **watch.figures})
    except _LeaveRefused as refused:
        return Yielded(reason=str(refused))
    except NotYetError as nothing:
        return NothingToDo(reason=str(nothing), again=nothing.delay)
    except YieldError as stepped_back:
        return Yielded(reason=str(stepped_back), delay=stepped_back.delay)
    except Exception as error:  # the edge of a run: whatever it was, it has an outcome
        log.exception("a run failed", run=assignment.run, table=assignment.table, step=step)
        return _failure(error, step=step, committed=committed)


class _Stopwatch:
    """Measures steps, without the time they waited for their permits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.figures: dict[str, float] = {}

    @contextlib.contextmanager
    def measures(self, step: Step) -> Iterator[None]:
        """Keep how long the bracket took as the figure `<step>_seconds`."""
        began = self._clock.monotonic()
        yield
        self.figures[f"{step}_seconds"] = round(self._clock.monotonic() - began, 3)


class _LeaveRefused(Exception):  # noqa: N818 - not an error: the way down the ladder, through the program's bracket
    """A permit was refused."""


def _require(permit: Granted | Refused) -> None:
    """Raise _LeaveRefused for a refusal."""
    match permit:
        case Granted():
            return
        case Refused(reason=reason):
            raise _LeaveRefused(reason)
        case _:
            assert_never(permit)


def _failure(error: Exception, *, step: Step, committed: bool) -> Failed:
    """Return the failure that `error` means.

    Once the commit permit was granted, only an error that a program has named on purpose is believed; any other
    may have come after the commit, and only the timeline can tell.
    """
    reason = str(error) or type(error).__name__
    match error:
        case _ if committed:
            return Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)
        case ValidationError() if step is Step.PLAN:
            return Failed(kind=FailureKind.PERMANENT, reason=_invalid(error), step=step)
        case UnknownError():
            return Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)
        case TemporaryError():
            return Failed(kind=FailureKind.TEMPORARY, reason=reason, step=step, delay=error.delay)
        case PermanentError():
            return Failed(kind=FailureKind.PERMANENT, reason=reason, step=step)
        case _:
            kind = FailureKind.UNKNOWN if step is Step.COMMIT else FailureKind.TEMPORARY
            return Failed(kind=kind, reason=f"{type(error).__name__}: {reason}", step=step)


def _invalid(error: ValidationError) -> str:
    """Say which options are wrong, and why, without the lengthy text of pydantic."""
    wrong = (f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors(include_url=False))
    return f"the options are invalid: {'; '.join(wrong)}"
