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
