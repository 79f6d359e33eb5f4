"""The timeline: what happened to a table, in order. It is the truth, and the store of Lakewarden only an index
of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State

_COMMITS = frozenset({InstantKind.WRITE, Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.TTL})


class Fate(StrEnum):
    """What happened to a run's instant, according to the timeline."""

    ABSENT = "absent"
    ARCHIVED = "archived"
    """The instant is older than the oldest active one and is not there. It was completed or rolled back, and forgotten
    since."""
    PENDING = "pending"
    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The active instants of a table, the oldest requested time first.

    `oldest_leave_first`: no instant leaves the timeline before all older ones have. If that is not so, a missing
    instant tells nothing.
    """

    instants: tuple[Instant, ...]
    oldest_leave_first: bool = True

    def pending(self, service: Service) -> tuple[Instant, ...]:
        """Return the pending plans of `service`, the oldest first."""
        return tuple(i for i in self.instants if i.pending and i.stands_for is service)

    def writes_in_flight(self) -> tuple[Instant, ...]:
        """Return the writes in flight, the oldest first."""
        return tuple(i for i in self.instants if i.pending and i.stands_for is InstantKind.WRITE)

    def last_completed(self, what: Service | InstantKind) -> Instant | None:
        """Return the completed instant of this kind with the greatest requested time, if any."""
        done = (i for i in reversed(self.instants) if not i.pending and i.stands_for is what)
        return next(done, None)

    def held_by_savepoint(self) -> tuple[Instant, ...]:
        """Return the oldest completed savepoint and the completed commits after the one that it saves. They stay as
        long as the savepoint exists. Empty if there is no savepoint.
        """
        saved = [i for i in self.instants if i.stands_for is InstantKind.SAVEPOINT and not i.pending]
        after = (i for i in self.instants if saved and not i.pending and i.time > saved[0].time)
        return (*saved[:1], *(i for i in after if i.stands_for in _COMMITS))

    def is_past(self, instant: str) -> bool:
        """Whether `instant` is older than every active instant. If it is also missing, it was archived or rolled back.
        It is not pending, because pending instants are never archived.
        """
        return self.oldest_leave_first and bool(self.instants) and instant < self.instants[0].time

    def of_run(self, *, run: RunId, instant: str | None) -> Instant | None:
        """Return the instant that `run` planned or adopted, if the timeline has it.

        If a run died after it planned and before it reported its instant, the instant is found by its author. If a
        format shows no plans, it is the last instant that the run committed.
        """
        for candidate in self.instants:
            if candidate.time == instant and isinstance(candidate.stands_for, Service):
                return candidate
            if instant is None and candidate.author == run and not candidate.partial:
                return candidate
        return None

    def fate(self, *, run: RunId, instant: str | None) -> Fate:
        """Return what happened to the run's instant. Permits, settling and restarts all ask this."""
        found = self.of_run(run=run, instant=instant)
        if found is not None:
            return Fate.COMPLETED if found.state is State.COMPLETED else Fate.PENDING
        return Fate.ARCHIVED if instant is not None and self.is_past(instant) else Fate.ABSENT


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivePage:
    """Archived instants of a table, the newest first. The next page has what was requested before `before`. None: there
    is no further page. A page may have few instants, or none, if many files had to be read for it.
    """

    instants: tuple[Instant, ...]
    before: datetime | None = None
