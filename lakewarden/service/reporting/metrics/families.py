"""The metrics of single tables: their names, their meanings, and how the values of several tables become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from lakewarden.service.config.settings import OTHER_TABLES

OTHER = OTHER_TABLES
"""The label of the tables that have no series of their own."""


class Fold(StrEnum):
    """How the values of several tables become the value of `_other`."""

    SUM = "sum"
    LARGEST = "largest"
    SMALLEST = "smallest"

    def of(self, values: Iterable[float]) -> float:
        """Return the value of several tables. Raises ValueError if there is none and the fold is no sum."""
        match self:
            case Fold.SUM:
                return sum(values)
            case Fold.LARGEST:
                return max(values)
            case Fold.SMALLEST:
                return min(values)
            case _:
                assert_never(self)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Family:
    """One metric with a label `table`, and the other `labels`. `fold` is how `_other` gets its value."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    fold: Fold = Fold.SUM


Key = tuple[Family, tuple[str, ...]]
"""A series of one table: its metric, and the values of the labels beside `table`."""

_SERVICE = ("service",)

PENDING = Family(name="lakewarden_table_pending_instants", meaning="Pending instants.", labels=_SERVICE)
FIRST_PENDING = Family(
    name="lakewarden_table_first_pending_timestamp_seconds",
    meaning="Time at which the oldest pending instant was requested.",
    labels=_SERVICE,
    fold=Fold.SMALLEST,
)
COMMITS_SINCE = Family(
    name="lakewarden_table_commits_since", meaning="Commits since the service last completed.", labels=_SERVICE
)
BACKLOG_BYTES = Family(
    name="lakewarden_table_backlog_bytes",
    meaning="Bytes of the files that the service has to rewrite, if the format counts them.",
    labels=_SERVICE,
)
LOG_FILES = Family(
    name="lakewarden_table_log_files",
    meaning="Log files of the file group that has the most.",
    fold=Fold.LARGEST,
)
SMALL_FILES = Family(
    name="lakewarden_table_small_files", meaning="Base files that are small enough for a rewrite to join them."
)
INNER_COMMITS = Family(
    name="lakewarden_table_inner_commits_since",
    meaning="Commits of a table that the format keeps inside the table, since its last compaction.",
    labels=("inner",),
)
UNSEEN_SINCE = Family(
    name="lakewarden_table_unseen_since_timestamp_seconds",
    meaning="Time of the first commit with rows that readers do not see before the service has run.",
    labels=_SERVICE,
    fold=Fold.SMALLEST,
)
SAVEPOINT_SINCE = Family(
    name="lakewarden_table_oldest_savepoint_timestamp_seconds",
    meaning="Time at which the commit of the oldest savepoint was requested. Later commits cannot be archived.",
    fold=Fold.SMALLEST,
)
READER_BEHIND = Family(
    name="lakewarden_table_reader_commits_behind",
    meaning="Commits that a declared incremental reader has not read, or may not have read. -1 if that is unknown.",
    labels=("reader",),
    fold=Fold.LARGEST,
)
READER_SINCE = Family(
    name="lakewarden_table_reader_unread_since_timestamp_seconds",
    meaning="Time at which the first commit that a declared incremental reader has not read was completed.",
    labels=("reader",),
    fold=Fold.SMALLEST,
)
WRITES_IN_FLIGHT = Family(name="lakewarden_table_writes_in_flight", meaning="Writes that have begun and not ended.")
LAST_COMMIT = Family(
    name="lakewarden_table_last_writer_commit_timestamp_seconds",
    meaning="Time at which a writer last committed.",
    fold=Fold.LARGEST,
)
POLL_AGE = Family(
    name="lakewarden_table_poll_age_seconds", meaning="Time since the last poll of the table.", fold=Fold.LARGEST
)
POLL_INTERVAL = Family(
    name="lakewarden_table_poll_interval_seconds",
    meaning="How often the table is polled now.",
    fold=Fold.LARGEST,
)
POLL_FAILING = Family(name="lakewarden_table_poll_failing", meaning="1 while the table cannot be observed, else 0.")
LOCK_PROVED = Family(
    name="lakewarden_table_lock_proved",
    meaning="1 if the writers are proved to hold the configured lock, 0 if that is unknown, -1 if one did not hold it.",
    fold=Fold.SMALLEST,
)
APPROVALS = Family(name="lakewarden_table_approvals_waiting", meaning="Deletions that wait for an approval.")
REWRITES = Family(
    name="lakewarden_table_rewrites_of_all_files",
    meaning="Rewrites of all files that were requested and have not ended.",
)
RETRIES = Family(
    name="lakewarden_table_retries",
    meaning="Runs of a service, in a row, that yielded to a writer or failed temporarily.",
    labels=_SERVICE,
)
BLOCKED = Family(
    name="lakewarden_table_service_blocked",
    meaning="1 while a service with a policy is blocked, else 0. `explain` says why.",
    labels=_SERVICE,
)
QUARANTINED = Family(
    name="lakewarden_table_service_quarantined",
    meaning="1 while a service with a policy is in quarantine, else 0.",
    labels=_SERVICE,
)

FAMILIES = (
    PENDING,
    FIRST_PENDING,
    COMMITS_SINCE,
    BACKLOG_BYTES,
    LOG_FILES,
    SMALL_FILES,
    INNER_COMMITS,
    UNSEEN_SINCE,
    SAVEPOINT_SINCE,
    READER_BEHIND,
    READER_SINCE,
    WRITES_IN_FLIGHT,
    LAST_COMMIT,
    POLL_AGE,
    POLL_INTERVAL,
    POLL_FAILING,
    LOCK_PROVED,
    APPROVALS,
    REWRITES,
    RETRIES,
    BLOCKED,
    QUARANTINED,
)
"""Every metric of single tables that is a gauge."""
