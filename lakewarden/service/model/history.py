"""What the store remembers of the past: changes of decisions, and the work that had piled up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import DecisionRow

GRAINS = (1, 5, 60, 240, 480, 1440)
"""The distances of points of debt, in minutes. Each divides the next one."""

FINE = {1: timedelta(hours=6), 5: timedelta(days=2)}
"""How long the points of the finest distances are kept. The others are kept as the setting says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionChange:
    """A decision that began at `decision.decided_at` and held `until` the next one. None: it still holds.

    The numbers in its reason are those of its beginning. `number` is its place in the store.
    """

    decision: DecisionRow
    until: datetime | None = None
    number: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Debt:
    """The work that has piled up for a service: pending plans, commits since it ran, files and bytes to rewrite.

    `oldest` is when the oldest pending plan was requested.
    """

    pending: int = 0
    commits: int = 0
    files: int = 0
    bytes: int = 0
    oldest: datetime | None = None

    def __add__(self, other: Debt) -> Debt:
        """Return both together."""
        known = [one for one in (self.oldest, other.oldest) if one is not None]
        return Debt(
            pending=self.pending + other.pending,
            commits=self.commits + other.commits,
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            oldest=min(known, default=None),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DebtPoint:
    """The debt of a table, or of the `tables` that a replica owned, at a moment. Services without debt are left out.

    `table` is None for the tables of a replica. `grain` is the largest of GRAINS on which the moment lies.
    """

    at: datetime
    grain: int
    table: TableId | None = None
    replica: str = ""
    tables: int = 1
    services: Mapping[Service, Debt] = field(default_factory=dict)


def grain_of(at: datetime) -> int | None:
    """Return the largest distance with a moment on its grid, counted from midnight in UTC. None between minutes."""
    at = at.astimezone(UTC)
    if at.second or at.microsecond:
        return None
    minute = at.hour * 60 + at.minute
    return max(grain for grain in GRAINS if minute % grain == 0)


def points_kept(finest: int, *, keep: timedelta) -> int:
    """Return the largest number of points of one series with the distance `finest` and its multiples."""
    day = timedelta(days=1)
    fine = sum(round(min(kept, keep) / timedelta(minutes=grain)) for grain, kept in FINE.items() if grain >= finest)
    coarse = max(finest, GRAINS[2])
    return fine + round(max(keep, day) / timedelta(minutes=coarse))


def finest_for(tables: int, *, points: int, keep: timedelta) -> int:
    """Return the smallest distance at which so many tables have no more than `points` points together."""
    fits = (grain for grain in GRAINS if tables * points_kept(grain, keep=keep) <= points)
    return next(fits, GRAINS[-1])
