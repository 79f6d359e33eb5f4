"""Blame: which failures of a table's writers count as caused by us. Pure.

A writer fails by what it meets: a plan that is pending, or a commit that is completed, in the life of its write. So a
failure counts against the run whose instant the format says it met. Of a plan that is not on the timeline any more
nobody can say whom it met: there it is enough that the run was under way in the write's life.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.view import WriteFailure
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState

CLOCKS = timedelta(seconds=5)
"""A run's times are the daemon's, a write's those of its writer: so far their clocks may be apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blamed:
    """A writer's failure, and the run of ours that it counts against, if there is one."""

    failure: WriteFailure
    run: RunId | None = None


def blame(failure: WriteFailure, runs: Iterable[Run], *, shown: Collection[str] = ()) -> Blamed:
    """Return a failure with the first of `runs`, all of its table, that can have caused it. `shown` are the instants on
    the timeline.
    """
    return Blamed(failure=failure, run=next((run.id for run in runs if _may_have_caused(run, failure, shown)), None))


def _may_have_caused(run: Run, failure: WriteFailure, shown: Collection[str]) -> bool:
    if failure.met is not None and run.instant in shown:
        return run.instant in failure.met
    return SERVICES[run.service].meets_writers and _had_a_plan(run) and _was_beside(run, failure)


def _had_a_plan(run: Run) -> bool:
    """Whether a run has, or may have, put something where a writer meets it."""
    if run.instant is not None or run.off_timeline:
        return True
    return run.step is Step.PLAN and run.state not in (RunState.SUCCEEDED, RunState.CANCELLED)


def _was_beside(run: Run, failure: WriteFailure) -> bool:
    begun_at = failure.at if failure.begun_at is None else failure.begun_at
    if run.started_at is None or failure.at < run.started_at - CLOCKS:
        return False
    return run.ended_at is None or begun_at <= run.ended_at + CLOCKS
