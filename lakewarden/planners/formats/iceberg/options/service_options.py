"""The options of each table service, in Iceberg's own terms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.options.where import parse_where
from lakewarden.planners.settings import Duration, Settings, Size, Within, format_duration

# A sort order as people write it: `day DESC NULLS LAST, id`.

_COLUMN = re.compile(r"(`[^`]+`|[\w.]+)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


class SortedBy(NamedTuple):
    """One column of an order. By default rows ascend, and nulls count as smaller than all other values."""

    column: str
    descending: bool
    nulls_last: bool


def parse_sort_order(text: str) -> tuple[SortedBy, ...]:
    """Return the columns of an order, the most significant first. Raises ValueError that names the wrong part."""
    return tuple(map(_sorted_by, text.split(",")))


def _sorted_by(text: str) -> SortedBy:
    match = _COLUMN.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text.strip()!r} is not a column with its order: write it as in `day DESC NULLS LAST, id`, "
            "without functions"
        )
    name, direction, nulls = match.groups()
    descending = (direction or "ASC").upper() == "DESC"
    nulls_last = descending if nulls is None else nulls.upper() == "LAST"
    return SortedBy(column=name.strip("`"), descending=descending, nulls_last=nulls_last)


class RewriteOptions(Settings):
    """The options that rewrites of data files have in common (`rewrite_data_files`)."""

    target_file_size: Annotated[Size, Within("1B", "1TiB")] | None = None
    """The target size of a file (`target-file-size-bytes`). The default is the table's own."""

    min_file_size: Annotated[Size, Within("0B", "1TiB")] | None = None
    """Smaller files are rewritten (`min-file-size-bytes`). The default is three quarters of the target."""

    max_file_size: Annotated[Size, Within("1B", "1TiB")] | None = None
    """Larger files are rewritten (`max-file-size-bytes`). The default is 1.8 times the target."""

    min_input_files: Annotated[int, Within(1, 1_000_000)] = 5
    """If a group has so many files, it is rewritten whatever their size (`min-input-files`)."""

    delete_file_threshold: Annotated[int, Within(1, 1_000_000)] | None = None
    """A data file with so many delete files is rewritten (`delete-file-threshold`). By default no file is rewritten for
    that."""

    delete_ratio_threshold: Annotated[float, Within(0.001, 1)] = 0.3
    """A data file is rewritten if the delete files that are for it alone delete such a share of its rows
    (`delete-ratio-threshold`)."""

    max_file_group_size: Annotated[Size, Within("1B", "1024TiB")] = Field(default="10GiB", validate_default=True)
    """The most bytes that are rewritten in one group (`max-file-group-size-bytes`)."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 10_000
    """The most files that one run rewrites. The other files wait for the next run."""

    max_bytes: Annotated[Size, Within("1B", "1024TiB")] = Field(default="100GiB", validate_default=True)
    """The most bytes that one run rewrites. A single group may be larger."""

    max_concurrent_groups: Annotated[int, Within(1, 64)] = 2
    """How many groups are rewritten at a time (`max-concurrent-file-group-rewrites`)."""

    where: str | None = Field(default=None, min_length=1)
    """Only these partitions are rewritten, as in `day >= '2026-01-01' AND region IN ('eu', 'us')`. It is a list of
    conditions on partition fields, joined by AND. The names and values are those of the partitions' folders. By default
    all partitions are rewritten."""

    untouched_for: Annotated[Duration, Within("0s", "3650d")] = Field(default="0s", validate_default=True)
    """Only partitions without a write for this time are rewritten."""

    partial_progress: bool = False
    """Commit in several parts, so that a conflict loses only one part (`partial-progress.enabled`)."""

    max_commits: Annotated[int, Within(1, 1000)] = 10
    """If `partial_progress` is on: the most commits of one run (`partial-progress.max-commits`)."""

    @field_validator("where")
    @classmethod
    def _is_a_predicate(cls, where: str | None) -> str | None:
        if where is not None:
            parse_where(where)
        return where


class CompactionOptions(RewriteOptions):
    """Compaction: small files, and files with many deletes, are rewritten into larger ones (strategy `binpack`)."""

    remove_dangling_deletes: bool = False
    """Also remove deletes that apply to no data file any more (`remove-dangling-deletes`). Iceberg's commits by
    themselves drop the deletes that are older than every file of the table."""


class ClusteringOptions(RewriteOptions):
    """Clustering: files are rewritten in an order (strategy `sort`), by columns or along a z-curve. Set one of
    `sort_order` and `zorder`. Without both, the order is the table's own sort order.
    """

    sort_order: str | None = None
    """The columns to sort by, as in `day DESC NULLS LAST, id`."""

    zorder: tuple[str, ...] = ()
    """The columns of a z-curve."""

    untouched_for: Annotated[Duration, Within("0s", "3650d")] = Field(default="1h", validate_default=True)
    """Only partitions without a write for this time are rewritten."""

    @model_validator(mode="after")
    def _one_order(self) -> ClusteringOptions:
        if self.sort_order is not None and self.zorder:
            raise ValueError("sort_order and zorder are two orders: set one of them")
        if self.sort_order is not None:
            parse_sort_order(self.sort_order)
        return self


class CleanOptions(Settings):
    """Clean: old snapshots expire, and the files that only they need are deleted (`expire_snapshots`)."""

    max_snapshot_age: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Older snapshots expire. The default is the table's `history.expire.max-snapshot-age-ms`, else five days. It is
    never less than the table option `longest_outage`."""

    min_snapshots_to_keep: Annotated[int, Within(1, 1_000_000)] | None = None
    """How many of the newest snapshots of every branch always stay. The default is the table's
    `history.expire.min-snapshots-to-keep`, else 1. A branch's own retention (`min-snapshots-to-keep`,
    `max-snapshot-age-ms`) counts before these two options."""

    expire_refs: bool = True
    """A branch or a tag expires if its snapshot is older than its own `max-ref-age-ms`, or else than
    `history.expire.max-ref-age-ms` of the table. By default neither is set. `main` never expires."""

    max_snapshots: Annotated[int, Within(1, 1_000_000)] = 5000
    """The most snapshots that one run expires, the oldest first."""


class PrefixMismatch(StrEnum):
    """What orphans does if files and metadata spell a store differently (`prefix_mismatch_mode`)."""

    REFUSE = "refuse"
    IGNORE = "ignore"


class OrphansOptions(Settings):
    """Orphans: files below the table's folder that no snapshot knows are deleted (`remove_orphan_files`)."""

    older_than: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Only older files are deleted, because a younger one may belong to a commit that has not ended. It is at least
    24h, and at least the table's `longest_outage` and `flink_restores`. The default is the longest of these and three
    days."""

    unknown_for: Annotated[Duration, Within("0s", "365d")] = Field(default="1d", validate_default=True)
    """For how long a file must be unknown to the table, in the listings of two runs, before it is deleted. The first
    run that finds the file only remembers it. With 0s one run lists the folder twice, minutes apart."""

    on_prefix_mismatch: PrefixMismatch = PrefixMismatch.REFUSE
    """`refuse` deletes nothing if the metadata names files with another scheme or authority than the listing. `ignore`
    spares only the files with a path that is known under another one."""


class ArchiveOptions(Settings):
    """Archive: manifests are rewritten by partition (`rewrite_manifests`)."""

    small_manifests: Annotated[int, Within(2, 1_000_000)] = 20
    """If there are so many manifests below half of `commit.manifest.target-size-bytes`, they are rewritten."""


class TableStatsOptions(Settings):
    """Table stats: how many distinct values the columns have (`compute_table_stats`), and how many rows, files and
    deletes the partitions have (`compute_partition_stats`), in the current snapshot. The first of the two reads the
    whole table.
    """

    columns: tuple[str, ...] = Field(default=(), max_length=1000)
    """The columns in which distinct values are counted. The default is all columns without a nested type."""

    partition_stats: bool = True
    """Also count by partition, if the table has partitions. This reads only the manifests."""


# How old snapshots and files must be before they may be deleted. Settings, decisions and programs all ask here. Pure.

_USUAL = timedelta(days=3)
_A_COMMIT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """An age and its reason, for people. `option` is the table option that sets it, if one does."""

    age: timedelta
    because: str
    option: str | None = None

    @property
    def or_lower(self) -> str:
        """Return, for messages, that the option may also be lowered."""
        return "" if self.option is None else f", or lower {self.option} if no writer comes back after so long"

    def __str__(self) -> str:
        return f"{format_duration(self.age)} ({self.because})"


def least_age_of_snapshots(options: IcebergTableOptions) -> Age:
    """Return the least age of a snapshot before it may expire."""
    why = "a writer that comes back by then looks for its last snapshot"
    return _by_option("longest_outage", options.longest_outage, why)


def least_age_of_orphans(options: IcebergTableOptions) -> Age:
    """Return the least age of a file before it may count as an orphan.

    A younger file may belong to a commit that has not ended, to a worker of Kafka Connect that has stopped, or to a
    checkpoint of Flink. A writer that comes back commits files that it wrote before.
    """
    stopped = "a writer that comes back by then commits files that it wrote before it stopped"
    restored = "a Flink job that is restored by then commits files that only its checkpoint knows"
    return max(
        Age(age=_A_COMMIT, because="a younger file may belong to a commit that is under way"),
        _by_option("longest_outage", options.longest_outage, stopped),
        _by_option("flink_restores", options.flink_restores, restored),
        key=lambda age: age.age,
    )


def age_of_orphans(orphans: OrphansOptions, options: IcebergTableOptions) -> Age:
    """Return the age from which a file may count as an orphan: the age in the options, but at least the least age."""
    least = least_age_of_orphans(options)
    age = _USUAL if orphans.older_than is None else orphans.older_than
    if age < least.age:
        return least
    return Age(age=age, because="by default" if orphans.older_than is None else "older_than")


def _by_option(option: str, age: timedelta, why: str) -> Age:
    return Age(age=age, because=f"options.{option}, for {why}", option=option)
