"""An instant: one entry of a table's timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import NewType

RunId = NewType("RunId", str)


class Service(StrEnum):
    """The table services. The names are the same for every format."""

    COMPACTION = "compaction"
    LOG_COMPACTION = "log_compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ARCHIVE = "archive"
    ROLLBACK = "rollback"
    TTL = "ttl"
    INDEXING = "indexing"
    SAVEPOINT = "savepoint"
    CATALOG_SYNC = "catalog_sync"
    METADATA_VALIDATION = "metadata_validation"
    METADATA_REBUILD = "metadata_rebuild"
    ORPHANS = "orphans"
    TABLE_STATS = "table_stats"
    PARTITION_COMMIT = "partition_commit"


class InstantKind(StrEnum):
    """What an instant did if it is no table service."""

    WRITE = "write"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    OTHER = "other"


class State(IntEnum):
    """How far an instant has come. The order is part of the meaning."""

    REQUESTED = 1
    INFLIGHT = 2
    COMPLETED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSize:
    """How much work a pending plan contains. `None` if the plan does not say."""

    file_groups: int | None
    bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Instant:
    """One entry of a timeline, in the highest state that was seen of it.

    `time` and `completed_time` are the times as the format writes them. `requested_at` and `completed_at` are the same
    moments in UTC. `author` is the run of Lakewarden that planned it. `guarded_until` is when the heartbeat of its
    executor expires. `last_beat` is when that heartbeat was last renewed, on the clock of the table's storage. Both are
    None if there is no heartbeat. `stopped_at` is when a heartbeat that had been seen was first missing. `partial`: its
    author commits more such instants, and this one is not the last.
    """

    time: str
    action: str
    stands_for: Service | InstantKind
    state: State
    requested_at: datetime
    completed_time: str | None = None
    completed_at: datetime | None = None
    author: RunId | None = None
    guarded_until: datetime | None = None
    last_beat: datetime | None = None
    stopped_at: datetime | None = None
    plan: PlanSize | None = None
    partial: bool = False

    @property
    def pending(self) -> bool:
        """Whether it is not completed yet."""
        return self.state is not State.COMPLETED

    def may_be_alive(self, now: datetime) -> bool:
        """Whether its executor may be alive: its heartbeat has not expired, or it never had one."""
        return self.guarded_until is None or now < self.guarded_until


# The timeline: what happened to a table, in order. It is the truth, and the store of Lakewarden only an index of it.

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
        run_instant = self.of_run(run=run, instant=instant)
        if run_instant is not None:
            return Fate.COMPLETED if run_instant.state is State.COMPLETED else Fate.PENDING
        return Fate.ARCHIVED if instant is not None and self.is_past(instant) else Fate.ABSENT


# The steps of a run. Each needs a permit.


class Step(StrEnum):
    """The three steps of every run, in order."""

    PLAN = "plan"
    EXECUTE = "execute"
    COMMIT = "commit"
