"""The waist of the house: every format reduces its metadata to one TableView."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.lock import LockLook
from lakewarden.planners.model.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class TableIdentity:
    """What a table is, whatever it is called: leases and uniqueness key on this.

    A table that is dropped and made again at the same place is another table.
    """

    location: str
    created: str

    def __str__(self) -> str:
        return f"{self.location}#{self.created}"


def location_of(identity: str) -> str:
    """Return where the table is that `identity`, a TableIdentity in writing, stands for."""
    return identity.rpartition("#")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Touch:
    """The newest completed write into a partition: when it was completed, and whether it changed rows that were
    there already (an update or a delete) or only added some. `before` is when the one before it was completed, where
    that is known and the format asks.
    """

    at: datetime
    instant: str
    updates: bool
    before: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteFailure:
    """A write that did not become a commit: it was rolled back, or its heartbeat ran out. `at` is the latest moment
    at which it can have failed, as far as the timeline says, and `begun_at` when it was requested: it failed between.
    `met` are the instants of services on the timeline that were there in its life in a way in which it can have failed
    by them; None where the format cannot tell.
    """

    instant: str
    at: datetime
    reason: str
    begun_at: datetime | None = None
    met: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterActivity:
    """What writers are doing: writes in flight (with their heartbeats), their cadence, what they last touched, and
    which of them failed.

    `touches` is by partition (`""` where the table has none) and knows the commits on the active timeline only: a
    partition that is missing was not touched by any of them. None where the format does not know, or no policy of
    the table asks. `touching` are the partitions that a write in flight says it will write to, by the write's time;
    a write that does not say it is missing. `updated` is by partition the newest commit that changed rows in a way that
    a rewrite of ours could collide with (of a new partition, which none has touched yet: its first append), and
    `update_interval` the usual time between two of those: None where the format tells no such commits apart.
    `non_blocking`: they check no conflict before they commit, and so lose to no compaction.
    """

    in_flight: tuple[Instant, ...] = ()
    last_commit_at: datetime | None = None
    usual_interval: timedelta | None = None
    touches: Mapping[str, Touch] | None = None
    touching: Mapping[str, frozenset[str]] = field(default_factory=dict)
    updated: Mapping[str, Touch] | None = None
    update_interval: timedelta | None = None
    failures: tuple[WriteFailure, ...] = ()
    non_blocking: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """The work that has piled up for one service, in physical units; None where not known.

    `commits` since the service last completed, `commits_since_request` since it was last asked for;
    `since` is when the clock of elapsed time started: the last completion, or the first commit. `rewrites` are the
    compactions and clusterings completed since. `log_files` and `log_bytes` are those of the file group that has
    the most; `small_files` are base files that a rewrite would make fewer. `unfinished` is what a dead run has left
    that the next one has to take back, in words: then the service is due, whatever its trigger says. `exact`: of what
    runs have found to be done the format counts nothing any more, so nothing is to be taken off for them.
    """

    commits: int = 0
    commits_since_request: int = 0
    since: datetime | None = None
    since_request: datetime | None = None
    files: int | None = None
    bytes: int | None = None
    file_groups: int | None = None
    rewrites: int = 0
    log_files: int | None = None
    log_bytes: int | None = None
    small_files: int | None = None
    unfinished: str | None = None
    exact: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderPosition:
    """Where an incremental reader is whom the table's owner has declared: `at` a position in words, with so many
    commits not read yet (`behind`), the first of them completed at `unread_since`. It still `needs` everything from
    this commit on; None where the table has none. `unreadable` is why its position is not known, if it is not.
    """

    name: str
    at: str | None = None
    behind: int = 0
    unread_since: datetime | None = None
    needs: str | None = None
    unreadable: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataBacklog:
    """What has piled up in a table that a format keeps about the table (Hudi's metadata table): `commits` since it
    was last compacted, at `since`, and what keeps it from being compacted, if anything does.
    """

    commits: int
    since: datetime | None = None
    pinned_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hindrance:
    """Why a service may not touch this table, and what a person sets to allow it.

    `services` empty means every service. `moot`: they have nothing to do on a table of this kind, whatever is set.
    """

    reason: str
    remedy: str
    services: frozenset[Service] = frozenset()
    moot: bool = False

    def concerns(self, service: Service) -> bool:
        """Whether `service` is held back by it."""
        return not self.services or service in self.services


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """All that deciding knows of a table at one moment.

    `kind` and `version` are the format's own words for people (`MERGE_ON_READ`, `9`); `faults` are
    parts of the metadata that could not be read, one sentence each: a view with faults is never kept.
    `warnings` are what a person should know of the table's settings although nothing is held back by it. `at_rest` says
    why a service without a backlog has nothing to do now, and until when, where the format can tell; `waits` why its
    commit had better wait, although no write in flight would fail by it, and until when; `notes` are what a person
    should know of what a service is going to do, or to keep. `lock` is what was seen of the lock that
    the writers are said to use; None where nothing is to be proved by it. `readers` are the incremental readers
    that are declared.
    """

    identity: TableIdentity
    name: str
    kind: str
    version: str
    observed_at: datetime
    timeline: Timeline
    writers: WriterActivity
    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    hindrances: tuple[Hindrance, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: MetadataBacklog | None = None
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    waits: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    lock: LockLook | None = None
    readers: tuple[ReaderPosition, ...] = ()
