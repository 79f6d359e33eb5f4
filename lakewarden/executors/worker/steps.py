"""The one ladder every run climbs: leave to plan, plan, leave to execute, execute, leave to commit, commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import structlog

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
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError

log = structlog.get_logger(__name__)

Ask = Callable[[Step, Plan | None], Granted | Refused]


class _LeaveRefused(Exception):  # noqa: N818 - not an error: the way down the ladder, through the program's bracket
    """A permit was refused."""


def carry_out(program: Program, session: Any, assignment: Assignment, ask: Ask) -> Outcome:
    """Carry out one run and return how it ended: never an exception.

    `ask` is called before each step and blocks until the step is granted or refused. A refusal leaves the program's
    bracket by an exception, so that a program can tell an abort from an ending.
    """
    ladder = _Ladder(ask)
    try:
        with program.open(session, assignment) as steps:
            ladder.ask(Step.PLAN, None)
            plan = steps.plan()
            if plan is None:
                return NothingToDo(reason="the format found nothing to plan")
            ladder.ask(Step.EXECUTE, plan)
            steps.execute(plan)
            ladder.ask(Step.COMMIT, plan)
            figures = steps.commit(plan)
            ladder.committed = True
        return Succeeded(figures=figures)
    except _LeaveRefused as refused:
        return Yielded(reason=str(refused))
    except Exception as error:  # the edge of a run: whatever it was, it has an outcome
        log.exception("a run failed", run=assignment.run, table=assignment.table, step=ladder.step)
        return _failure(error, step=ladder.step, committed=ladder.committed)


class _Ladder:
    """Where a run stands."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.step = Step.PLAN
        self.committed = False

    def ask(self, step: Step, plan: Plan | None) -> None:
        """Ask leave for `step`; raises _LeaveRefused."""
        permit = self._ask(step, plan)
        match permit:
            case Granted():
                self.step = step
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
    if committed or isinstance(error, UnknownError):
        return Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)
    if isinstance(error, TemporaryError):
        return Failed(kind=FailureKind.TEMPORARY, reason=reason, step=step, delay=error.delay)
    if isinstance(error, PermanentError):
        return Failed(kind=FailureKind.PERMANENT, reason=reason, step=step)
    if step is Step.COMMIT and not isinstance(error, LakewardenError):
        return Failed(kind=FailureKind.UNKNOWN, reason=f"{type(error).__name__}: {reason}", step=step)
    return Failed(kind=FailureKind.TEMPORARY, reason=f"{type(error).__name__}: {reason}", step=step)
