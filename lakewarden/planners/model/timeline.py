"""The timeline: what happened to a table, in order. It is the truth; our store is an index of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakewarden.planners.model.instant import Deed, Instant, RunId, Service, State

_COMMITS = frozenset({Deed.WRITE, Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.TTL})


class Fate(StrEnum):
    """What the timeline says has become of a run's instant."""

    ABSENT = "absent"
    ARCHIVED = "archived"
    """Older than the oldest active instant, and not there: completed or rolled back, and forgotten since."""
    PENDING = "pending"
    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The active instants of a table, oldest requested time first.

    `oldest_leave_first`: none leaves it before all that are older have. Where that is not so, nothing can be told of
    an instant that is not there.
    """

    instants: tuple[Instant, ...]
    oldest_leave_first: bool = True

    def pending(self, service: Service) -> tuple[Instant, ...]:
        """Return the plans of `service` that wait to be completed, the oldest first."""
        return tuple(i for i in self.instants if i.pending and i.stands_for is service)

    def writes_in_flight(self) -> tuple[Instant, ...]:
        """Return the writes that were begun and have not ended, the oldest first."""
        return tuple(i for i in self.instants if i.pending and i.stands_for is Deed.WRITE)

    def last_completed(self, what: Service | Deed) -> Instant | None:
        """Return the completed instant of this kind with the greatest requested time, if any."""
        done = (i for i in reversed(self.instants) if not i.pending and i.stands_for is what)
        return next(done, None)

    def held_by_savepoint(self) -> tuple[Instant, ...]:
        """Return the oldest completed savepoint, and the completed commits after the one that it saves: as long as it
        is there, they stay. Nothing where there is none.
        """
        saved = [i for i in self.instants if i.stands_for is Deed.SAVEPOINT and not i.pending]
        after = (i for i in self.instants if saved and not i.pending and i.time > saved[0].time)
        return (*saved[:1], *(i for i in after if i.stands_for in _COMMITS))

    def is_past(self, instant: str) -> bool:
        """Whether `instant` is older than everything that is active. One that is not shown then has left the active
        timeline for the archived one, or was rolled back; it is not pending, for what is pending is never archived.
        """
        return self.oldest_leave_first and bool(self.instants) and instant < self.instants[0].time

    def of_run(self, *, run: RunId, instant: str | None) -> Instant | None:
        """Return the instant that `run` planned or adopted, if the timeline has it.

        A run that died between planning and telling us its instant is found by its authorship; so is one whose format
        shows no plans, by what it committed last.
        """
        for candidate in self.instants:
            if candidate.time == instant and isinstance(candidate.stands_for, Service):
                return candidate
            if instant is None and candidate.author == run and not candidate.partial:
                return candidate
        return None

    def fate(self, *, run: RunId, instant: str | None) -> Fate:
        """Return what became of the run: the one question that permits, settling and restart ask."""
        found = self.of_run(run=run, instant=instant)
        if found is not None:
            return Fate.COMPLETED if found.state is State.COMPLETED else Fate.PENDING
        return Fate.ARCHIVED if instant is not None and self.is_past(instant) else Fate.ABSENT
