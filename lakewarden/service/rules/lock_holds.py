"""For how long we were seen to hold a table's lock: its writers wait for at least that long."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run


def worst_hold(runs: Iterable[Run]) -> timedelta | None:
    """Return the longest that a step of these runs can have held the lock; None where nothing was measured.

    The lock is held within planning and within committing, so how long those took bounds it from above. Where
    executing and committing are one step, that says nothing: its work is done without the lock; unless it measures its
    hold itself.
    """
    bounds = [seconds for run in runs for seconds in _bounds(run)]
    return timedelta(seconds=max(bounds)) if bounds else None


def _bounds(run: Run) -> list[float]:
    traits = SERVICES[run.service]
    if traits.locked:
        names = ["lock_held_seconds"]
    else:
        names = ["plan_seconds"] if traits.joined else ["plan_seconds", "commit_seconds"]
    return [float(run.figures[name]) for name in names if name in run.figures]
