"""How long Lakewarden was seen to hold the lock of a table. Its writers must wait for at least that long."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run


def worst_hold(runs: Iterable[Run]) -> timedelta | None:
    """Return the longest time that a step of these runs can have held the lock, or None if nothing was measured.

    The lock is held within planning and within committing. So the durations of these steps are an upper bound. If
    execute and commit are joined, the duration of that step is no bound, because its work is done without the lock.
    Some services measure how long they hold the lock. Then that figure counts.
    """
    bounds = [seconds for run in runs for seconds in lock_bounds(run)]
    return timedelta(seconds=max(bounds)) if bounds else None


def lock_bounds(run: Run) -> list[float]:
    """Return for each step of a run that holds the lock how many seconds it can have held the lock."""
    traits = SERVICES[run.service]
    if traits.locked:
        names = ["lock_held_seconds"]
    else:
        names = ["plan_seconds"] if traits.joined else ["plan_seconds", "commit_seconds"]
    return [float(run.figures[name]) for name in names if name in run.figures]
