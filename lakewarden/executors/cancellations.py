"""Which runs of this process were cancelled, for programs that do their work outside of Spark's jobs."""

from __future__ import annotations

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId

_CANCELLED: set[RunId] = set()


def note(run: RunId) -> None:
    """Remember that a run was cancelled."""
    _CANCELLED.add(run)


def forget(run: RunId) -> None:
    """Forget a run that has ended."""
    _CANCELLED.discard(run)


def require_wanted(run: RunId) -> None:
    """Raise TemporaryError if the run was cancelled. A program asks this between two pieces of its work."""
    if run in _CANCELLED:
        raise TemporaryError("the run was cancelled")
