"""Blame: which failures of a table's writers count as caused by us. Pure.

A writer that fails near one of our runs may have failed for another reason, but that is for a person to say. When
exactly it failed the timeline does not tell: somewhere between its begin and the moment it was found dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.view import WriteFailure
from lakewarden.service.store.port import Run

NEAR = timedelta(minutes=1)
"""A failure this close to one of our runs on the table counts as ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blamed:
    """A writer's failure, and the run of ours that it counts against, if there is one."""

    failure: WriteFailure
    run: RunId | None = None


def blame(failure: WriteFailure, runs: Iterable[Run]) -> Blamed:
    """Return a failure with the first of `runs`, all of its table, that was under way near it."""
    return Blamed(failure=failure, run=next((run.id for run in runs if _was_near(run, failure)), None))


def _was_near(run: Run, failure: WriteFailure) -> bool:
    """Whether a run was under way within `NEAR` of the time between a write's begin and its failure."""
    begun_at = failure.at if failure.begun_at is None else failure.begun_at
    if run.started_at is None or failure.at < run.started_at - NEAR:
        return False
    return run.ended_at is None or begun_at <= run.ended_at + NEAR
