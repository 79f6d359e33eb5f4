"""The view of a table. Every format reduces its metadata to this one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.planners.model.decision import OTHER, NotDue
from lakewarden.planners.model.instant import Instant, Service, Timeline
from lakewarden.planners.model.proof import LockReading


@dataclass(frozen=True, kw_only=True, slots=True)
class TableIdentity:
    """The identity of a table under any name. Leases use it, and no two tables may have the same.

    A table that is dropped and created again at the same place is another table.
    """

    location: str
    created: str

    def __str__(self) -> str:
        return f"{self.location}#{self.created}"


def location_of(identity: str) -> str:
    """Return the location in `identity`, a TableIdentity as text."""
    return identity.rpartition("#")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Touch:
    """The newest completed write into a partition: when it was completed, and whether it changed existing rows
    (`updates`) or only added some. `before` is when the write before it was completed. It is None if that is not known
    or the format does not need it.
    """

    at: datetime
    instant: str
    updates: bool
    before: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteFailure:
    """A write that did not become a commit. It was rolled back, or its heartbeat expired. `begun_at` is when it was
    requested, and `at` the latest moment at which it can have failed, as far as the timeline says. `met` are the
    instants of services that can have made it fail: they were on the timeline in its lifetime. None if the format
    cannot tell.
    """

    instant: str
    at: datetime
    reason: str
    begun_at: datetime | None = None
    met: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterActivity:
    """What writers are doing: writes in flight with their heartbeats, their usual interval, what they touched last, and
    which of them failed.

    - `touches` is by partition (`""` if the table has none). It knows only the commits on the active timeline. None of
      them touched a partition that is missing. It is None if the format does not know, or no policy of the table needs
      it.
    - `touching` are the partitions that a write in flight says it will write to, by the write's time. A write that does
      not say it is missing.
    - `updated` is by partition the newest commit that changed rows in a way that can collide with a rewrite. For a new
      partition without such a commit it is the first append. `update_interval` is the usual time between two of those
      commits. Both are None if the format does not tell such commits apart.
    - `non_blocking`: the writers check no conflict before they commit, so no compaction makes them fail.
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
    """The work that has piled up for one service, in physical units. None if not known.

    - `commits` since the service last completed, and `commits_since_request` since it was last requested.
    - `since` is the start of the elapsed time: the last completion, or the first commit.
    - `rewrites` are the compactions and clusterings that were completed since.
    - `log_files` and `log_bytes` are those of the file group with the most.
    - `small_files` are base files that a rewrite would join.
    - `unfinished` says in words what a dead run has left for the next run to undo. Then the service is due, whatever
      its trigger says.
    - `plan_bytes` are the bytes that a plan of all this would state, if the format counts them otherwise than `bytes`.
    - `writes` are the files that remain of the `files` that are rewritten.
    - `deletes` and `deletes_bytes` are the data files that a service deletes, and `versions` the commits or snapshots
      that can no longer be read then.
    - `exact`: the format does not count work that earlier runs have found to be done, so nothing is subtracted for
      those runs.
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
    plan_bytes: int | None = None
    writes: int | None = None
    deletes: int | None = None
    deletes_bytes: int | None = None
    versions: int | None = None
    unfinished: str | None = None
    exact: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceNeeds:
    """The backlog of a service, or why it rests; `changes_at` is when time alone may change that."""

    backlog: Backlog | None = None
    rest: NotDue | None = None
    notes: tuple[str, ...] = ()
    changes_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderPosition:
    """The position of a declared incremental reader. `at` is the position in words. `behind` is the number of commits
    that it has not read. The first of them was completed at `unread_since`. The reader still `needs` everything from
    this commit on. None if the table has no such commit. `unreadable` says why its position is not known, if it is not.
    """

    name: str
    at: str | None = None
    behind: int = 0
    unread_since: datetime | None = None
    needs: str | None = None
    unreadable: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InnerTable:
    """A table that the format keeps inside the table: its `name` for people, the `commits` since its last compaction
    `since`, and what prevents its compaction (`pinned_by`), if anything does.
    """

    name: str
    commits: int
    since: datetime | None = None
    pinned_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocker:
    """A fact about a table that blocks services: the reason with its code, and the remedy for an operator.

    An empty `services` means every service. `moot`: the services have nothing to do on a table of this kind. They do
    not apply to it, and nothing is blocked.
    `only_if_configured`: it is about the policy of a service and not about the table. An inspection of a table without
    policies leaves it out.
    """

    reason: str
    remedy: str
    services: frozenset[Service] = frozenset()
    moot: bool = False
    only_if_configured: bool = False
    code: str = field(default=OTHER, compare=False)

    def concerns(self, service: Service) -> bool:
        """Whether it blocks `service`."""
        return not self.services or service in self.services


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptMore:
    """The writers of a table keep more than the policy of a service. `says` compares the two for people. `instant` is
    the service's last completed one, which kept more. None if a property of the table says what is kept. `commits` is
    how many commits it kept, if they are what was counted.
    """

    says: str
    instant: str | None = None
    commits: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """All facts about a table at one moment that decisions depend on.

    - `kind` and `version` are the format's own terms for people (`MERGE_ON_READ`, `9`).
    - `faults` are parts of the metadata that could not be read, one sentence each. A view with faults is never kept.
      `mending` says what an operator does about the first of them, if the format can tell.
    - `warnings` are what an operator should know of the table's settings although they block nothing.
    - `at_rest` says why a service without a backlog has nothing to do now, and until when, if the format can tell.
    - `waits` says why the commit of a service should wait although no write in flight would fail, and until when.
    - `notes` are what an operator should know of what a service is going to do or to keep.
    - `lock` is what was seen of the lock of the writers. None if it proves nothing.
    - `readers` are the declared incremental readers.
    - `inner` are the tables that the format keeps inside this one.
    - `unseen_since` says since when readers do not see rows that were committed, by the service that shows them.
    - `kept_more` are the services with a policy that keeps less than was kept before.
    - `folder` is the folder of a table that its catalog names, with links resolved. It is empty if the table lies at
      its location.
    - `rewrites_all` are the services that can rewrite all files, each with a mark. The mark is a text for the programs
      of the format. It tells the files that the table has now from those that are written later. If the table forbids
      it, there is a blocker in place of the mark.
    """

    identity: TableIdentity
    name: str
    kind: str
    version: str
    observed_at: datetime
    timeline: Timeline
    writers: WriterActivity
    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    faults: tuple[str, ...] = ()
    mending: str | None = None
    warnings: tuple[str, ...] = ()
    inner: tuple[InnerTable, ...] = ()
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    waits: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    lock: LockReading | None = None
    readers: tuple[ReaderPosition, ...] = ()
    unseen_since: Mapping[Service, datetime] = field(default_factory=dict)
    kept_more: Mapping[Service, KeptMore] = field(default_factory=dict)
    rewrites_all: Mapping[Service, str | Blocker] = field(default_factory=dict)
    folder: str = ""
