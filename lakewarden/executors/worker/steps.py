"""The order of every run: permit to plan, plan, permit to execute, execute, permit to commit, commit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, assert_never

import structlog
from pydantic import ValidationError

from lakewarden.executors import points
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
    Succeeded,
    Yielded,
)
from lakewarden.executors.points import Point
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.credentials import without_credentials
from lakewarden.planners.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.step import Step
from lakewarden.planners.ports import Storage

log = structlog.get_logger(__name__)


class StepRequest(NamedTuple):
    """The step for which a run asks a permit, and what it is going to do (None before planning)."""

    step: Step
    plan: Plan | None


RunSteps = Generator[StepRequest, Granted | Refused, Outcome]


def carry_out(
    program: Program,
    session: Any,
    assignment: Assignment,
    storage: Storage,
    ask: Callable[[Step, Plan | None], Granted | Refused],
    *,
    clock: Clock | None = None,
) -> Outcome:
    """Carry out one run and return its outcome. `ask` blocks until its step is granted or refused."""
    run_steps = steps_of(program, session, assignment, storage, clock=clock)
    request = next(run_steps)
    while True:
        try:
            request = run_steps.send(ask(*request))
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def steps_of(
    program: Program, session: Any, assignment: Assignment, storage: Storage, *, clock: Clock | None = None
) -> RunSteps:
    """Yield each question, receive its permit, take the step. Return the outcome, whatever error is raised.

    A dry run ends after its plan, and asks for no further permit.
    A refusal leaves the program's `with` block by an exception, so that a program can tell an abort from a normal end.
    A success reports the duration of each step (`plan_seconds`, ...). The table's lock is held within planning and
    committing. So these figures are upper bounds for the time that writers had to wait for the lock.
    """
    step, committed = Step.PLAN, False
    at = functools.partial(points.reach, run=assignment.run, service=assignment.service)
    watch = _Stopwatch(clock or SystemClock())
    try:
        _require((yield StepRequest(Step.PLAN, None)))
        with program.open(session, assignment, storage) as steps:
            with watch.measures(Step.PLAN):
                plan = steps.plan()
            if plan is None:
                return NothingToDo(reason="the format found nothing to plan")
            if isinstance(plan, NothingToDo):
                return plan
            at(Point.PLANNED)
            if assignment.dry_run:
                return Succeeded(figures={**plan.figures, **watch.figures})
            _require((yield StepRequest(Step.EXECUTE, plan)))
            step = Step.EXECUTE
            at(Point.EXECUTING)
            with watch.measures(Step.EXECUTE), points.watched(Step.EXECUTE, plan, assignment):
                steps.execute(plan)
            at(Point.EXECUTED)
            _require((yield StepRequest(Step.COMMIT, plan)))
            step = Step.COMMIT
            with watch.measures(Step.COMMIT), points.watched(Step.COMMIT, plan, assignment):
                figures = steps.commit(plan)
            committed = True
            at(Point.COMMITTED)
        return Succeeded(figures={**_rewritten(plan), **figures, **watch.figures})
    except _LeaveRefused as refused:
        return Yielded(reason=str(refused))
    except NotYetError as nothing:
        return NothingToDo(reason=str(nothing), again=nothing.delay)
    except YieldError as yielded:
        return Yielded(reason=str(yielded), delay=yielded.delay)
    except Exception as error:  # the edge of a run: every error becomes an outcome
        log.exception("run_failed", run=assignment.run, table=assignment.table, step=step)
        return _failure(error, step=step, committed=committed)


def _rewritten(plan: Plan) -> dict[str, int]:
    """Return the bytes of the files that a plan rewrites, if it says them. A program that knows better replaces it."""
    return {} if plan.bytes is None else {"bytes_rewritten": plan.bytes}


class _Stopwatch:
    """Measures steps, without the time for which they waited for their permits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.figures: dict[str, float] = {}

    @contextlib.contextmanager
    def measures(self, step: Step) -> Iterator[None]:
        """Keep the duration of the `with` block as the figure `<step>_seconds`."""
        began = self._clock.monotonic()
        yield
        self.figures[f"{step}_seconds"] = round(self._clock.monotonic() - began, 3)


class _LeaveRefused(Exception):  # noqa: N818 - not an error: it leaves the program's `with` block after a refusal
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
    """Return the failure for `error`.

    After the commit permit was granted, only errors that a program has named on purpose are trusted. Any other error
    may come after the commit, and only the timeline tells.
    """
    reason = without_credentials(str(error)) or type(error).__name__
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
    """Return which options are wrong, and why, without the lengthy text of pydantic."""
    wrong = (f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors(include_url=False))
    return f"the options are invalid: {'; '.join(wrong)}"
