"""Blame: which failures of the writers of a table count as caused by us. Pure.

A writer fails because of a plan that is pending, or a commit that is completed, during its write. So a failure counts
against the run of the instant that the format says the write met. If a plan is no longer on the timeline, it is not
known which writes met it. Then a run that was under way during the write counts as the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.model.instant import RunId, Step
from lakewarden.planners.model.view import WriteFailure
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState

CLOCKS = timedelta(seconds=5)
"""How far the clocks of the daemon and of a writer may be apart. The times of a run are the daemon's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blamed:
    """A failure of a writer, and the run of ours that it counts against, if there is one."""

    failure: WriteFailure
    run: RunId | None = None


def blame(failure: WriteFailure, runs: Iterable[Run], *, instants: Collection[str] = ()) -> Blamed:
    """Return a failure with the first of `runs`, all of its table, that can have caused it.

    `instants` are the instants on the timeline.
    """
    return Blamed(failure=failure, run=next((run.id for run in runs if _may_have_caused(run, failure, instants)), None))


def _may_have_caused(run: Run, failure: WriteFailure, instants: Collection[str]) -> bool:
    if failure.met is not None and run.instant in instants:
        return run.instant in failure.met
    return SERVICES[run.service].meets_writers and _had_a_plan(run) and _was_beside(run, failure)


def _had_a_plan(run: Run) -> bool:
    """Whether a run has, or may have, put something on the table that a writer meets."""
    if run.instant is not None or run.off_timeline:
        return True
    return run.step is Step.PLAN and run.state not in (RunState.SUCCEEDED, RunState.CANCELLED, RunState.YIELDED)


def _was_beside(run: Run, failure: WriteFailure) -> bool:
    begun_at = failure.at if failure.begun_at is None else failure.begun_at
    if run.started_at is None or failure.at < run.started_at - CLOCKS:
        return False
    return run.ended_at is None or begun_at <= run.ended_at + CLOCKS
