"""What the owner of a Hudi table sets for each table service, in Hudi's own terms."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.metastores import URIS
from lakewarden.planners.settings import Duration, Settings, Size, Within, format_size, shown


class CompactionOptions(Settings):
    """Compaction of merge-on-read file groups."""

    target_io_mb: Annotated[int, Within(1, 1_000_000_000)] = 512_000
    """The most that one plan reads and writes, in MB (`hoodie.compaction.target.io`)."""


class CleanPolicy(StrEnum):
    """`hoodie.clean.policy`."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


class CleanOptions(Settings):
    """Which old file versions a clean removes. Readers of older versions fail once they are gone."""

    policy: CleanPolicy = CleanPolicy.KEEP_LATEST_COMMITS
    """What is counted (`hoodie.clean.policy`)."""

    commits_retained: Annotated[int, Within(1, 1_000_000)] | None = None
    """With KEEP_LATEST_COMMITS: commits that stay readable (`hoodie.clean.commits.retained`), 10 by default."""

    file_versions_retained: Annotated[int, Within(1, 1_000_000)] | None = None
    """With KEEP_LATEST_FILE_VERSIONS: versions of a file group that stay
    (`hoodie.clean.fileversions.retained`), 3 by default."""

    hours_retained: Annotated[int, Within(1, 1_000_000)] | None = None
    """With KEEP_LATEST_BY_HOURS: hours of commits that stay (`hoodie.clean.hours.retained`), 24 by default."""

    incremental: bool = True
    """Look only into partitions written since the last clean (`hoodie.clean.incremental.enabled`). Without it, and
    always with KEEP_LATEST_FILE_VERSIONS, every partition is looked into each time."""

    max_commits_to_clean: Annotated[int, Within(1, 1_000_000)] | None = None
    """How many commits one clean goes on by (`hoodie.clean.max.commits.to.clean`), no limit by default. It counts from
    where the last clean ended: a table's first clean is not bounded by it, and KEEP_LATEST_FILE_VERSIONS never is."""

    slices_from_commits: Annotated[int, Within(1, 1_000_000)] | None = 100
    """A table on which more commits than this (and than are retained) are to be cleaned was neglected. It is cleaned in
    slices, each within its deletion budget, that go on without a person. `null`: all at once, and beyond the budget a
    person is asked. With KEEP_LATEST_FILE_VERSIONS it is always all at once."""

    @model_validator(mode="after")
    def _only_what_the_policy_counts(self) -> CleanOptions:
        if self.max_commits_to_clean is not None and self.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
            raise ValueError(
                f"max_commits_to_clean: {self.max_commits_to_clean} says nothing under policy: {self.policy}"
            )
        counted = {
            CleanPolicy.KEEP_LATEST_COMMITS: "commits_retained",
            CleanPolicy.KEEP_LATEST_FILE_VERSIONS: "file_versions_retained",
            CleanPolicy.KEEP_LATEST_BY_HOURS: "hours_retained",
        }
        for policy, key in counted.items():
            value = getattr(self, key)
            if value is not None and policy is not self.policy:
                raise ValueError(f"{key}: {value} says nothing under policy: {self.policy}; it belongs to {policy}")
        return self


class LogCompactionOptions(Settings):
    """Log compaction of merge-on-read file groups: many log blocks become one, and no base file is rewritten."""

    log_blocks_threshold: Annotated[int, Within(2, 1_000_000)] = 5
    """A file group is taken from so many log blocks on (`hoodie.log.compaction.blocks.threshold`)."""


class LayoutStrategy(StrEnum):
    """How rows are laid out: `hoodie.layout.optimize.strategy`, or no way at all."""

    NONE = "none"
    """Files of one schema are joined as they are, row group by row group, and nothing is decoded
    (`SparkStreamCopyClusteringPlanStrategy`). Where that would be wrong they are rewritten as by `linear`: in
    merge-on-read tables, under an index of keys, with bloom filters of several kinds."""

    LINEAR = "linear"
    Z_ORDER = "z-order"
    HILBERT = "hilbert"


class SilentWrites(StrEnum):
    """What a write in flight may touch that does not say which partitions it writes to: Flink's never do, a bulk insert
    does not either, and any other does not before it has looked its rows up.
    """

    ANYTHING = "anything"
    WARM = "warm"


class ClusteringOptions(Settings):
    """Clustering: small files become larger ones, in a chosen order. Only partitions that no recent commit touched
    are taken, because a pending clustering rejects the writer's updates of its file groups.
    """

    sort_columns: tuple[str, ...] = ()
    """Columns by which rows are ordered (`hoodie.clustering.plan.strategy.sort.columns`); none keeps their order."""

    layout: LayoutStrategy = LayoutStrategy.LINEAR
    """How several columns are ordered together (`hoodie.layout.optimize.strategy`); `none` joins files as they are."""

    small_file_limit: Annotated[Size, Within("0B", "1TiB")] = Field(default="300MiB", validate_default=True)
    """Base files below this size are taken (`hoodie.clustering.plan.strategy.small.file.limit`)."""

    target_file_max_bytes: Annotated[Size, Within("1B", "1TiB")] = Field(default="1GiB", validate_default=True)
    """How large the new files become at most (`hoodie.clustering.plan.strategy.target.file.max.bytes`)."""

    max_bytes_per_group: Annotated[Size, Within("1B", "1024TiB")] = Field(default="2GiB", validate_default=True)
    """The most that is rewritten as one group (`hoodie.clustering.plan.strategy.max.bytes.per.group`)."""

    max_num_groups: Annotated[int, Within(1, 1_000_000)] = 30
    """The most groups in one plan (`hoodie.clustering.plan.strategy.max.num.groups`)."""

    partition_regex: str | None = None
    """Only partitions whose path matches (`hoodie.clustering.plan.strategy.partition.regex.pattern`)."""

    untouched_for: Annotated[Duration, Within("0s", "3650d")] = Field(default="1h", validate_default=True)
    """A partition is taken when no commit has touched it for this long; for less, updates that arrive late meet a
    clustering under way and fail. The active timeline must reach further back than this: what it no longer shows may
    have been touched until it begins."""

    silent_writes_touch: SilentWrites = SilentWrites.ANYTHING
    """What a write may touch that does not say where it writes: `anything`, so that a clustering waits for a moment
    without one, and under a Flink job that never pauses never runs; or only what is `warm`, written to within
    `untouched_for`. Where that is not so, such a write fails when it meets a clustering."""

    @model_validator(mode="after")
    def _orders_nothing_that_is_copied(self) -> ClusteringOptions:
        if self.layout is LayoutStrategy.NONE and self.sort_columns:
            raise ValueError("layout: none joins files as they are: leave sort_columns out, or take another layout")
        return self

    @model_validator(mode="after")
    def _comes_to_an_end(self) -> ClusteringOptions:
        if self.small_file_limit >= self.target_file_max_bytes:
            raise ValueError(
                f"small_file_limit: {format_size(self.small_file_limit)} must be below target_file_max_bytes: "
                f"{format_size(self.target_file_max_bytes)}, or what was clustered is clustered again and again"
            )
        return self

    @field_validator("partition_regex")
    @classmethod
    def _is_a_regular_expression(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"{shown(value)} is no regular expression: {error}") from error
        return value


class ArchiveOptions(Settings):
    """Which instants leave the active timeline for the archived one."""

    keep_min_commits: Annotated[int, Within(2, 1_000_000)] = 20
    """Commits that stay after archiving (`hoodie.keep.min.commits`). More than any trigger of the table counts, and
    more than its clean retains."""

    keep_max_commits: Annotated[int, Within(3, 1_000_000)] = 30
    """From more commits than this on, there is something to archive (`hoodie.keep.max.commits`)."""

    @model_validator(mode="after")
    def _in_order(self) -> ArchiveOptions:
        if self.keep_min_commits >= self.keep_max_commits:
            raise ValueError(
                f"keep_min_commits: {self.keep_min_commits} must be below keep_max_commits: {self.keep_max_commits}"
            )
        return self


class RollbackOptions(Settings):
    """Rolling back what dead writers and dead services left half-done."""

    dead_after: Annotated[Duration, Within("2m", "365d")] = Field(default="15m", validate_default=True)
    """A write counts as dead when its heartbeat has been silent for this long. A writer that pauses for longer would
    be rolled back alive: keep it well above the writers' own heartbeat window (two minutes by default, which is the
    least)."""

    without_heartbeat_after: Annotated[Duration, Within("10m", "3650d")] | None = None
    """A write of which no heartbeat was ever seen counts as dead when it is this old; by default only a person rolls it
    back. A writer that is not LAZY never shows any and may take for as long as it likes: a Flink job without input
    keeps one write in flight for a weekend. Where all writers are LAZY, say so of the table (`failed_writes: lazy`)."""


class BuiltIndex(StrEnum):
    """An index that we can build, by the name of its partition of the metadata table."""

    RECORD_INDEX = "record_index"
    BLOOM_FILTERS = "bloom_filters"
    COLUMN_STATS = "column_stats"


class IndexingOptions(Settings):
    """Indexes of the metadata table that are built or dropped. What an indexer has planned and nobody has begun is
    finished as well. Writers wait for the table's lock while an index is built: what they commit beside a build Hudi
    leaves out of it.
    """

    build: tuple[BuiltIndex, ...] = ()
    """Indexes that the table should have. Give the writers what `writer-options` prints first: Hudi drops an index that
    a writer's own options do not name, and a writer that names one builds it itself. With column_stats a partitioned
    table gets partition_stats, too: Hudi keeps up neither alone."""

    columns: tuple[str, ...] = ()
    """The columns of column_stats, where they are to be built. Those of stats that are there stay as they are."""

    largest_table: Annotated[Size, Within("1MiB", "1024TiB")] = Field(default="10GiB", validate_default=True)
    """An index of a table with more bytes is not built: column stats and bloom filters read the footers of all base
    files, a record index their keys, and writers wait meanwhile. A build that takes eight minutes is given up."""

    drop: tuple[str, ...] = ()
    """Indexes that the table should not have, by their partition in the metadata table, as in `column_stats`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> IndexingOptions:
        both = sorted(set(self.build) & set(self.drop))
        if both:
            raise ValueError(f"drop: {both[0]} stands under build, too")
        if "files" in self.drop:
            raise ValueError("drop: files is no index but the metadata table itself")
        if (BuiltIndex.COLUMN_STATS in self.build) != bool(self.columns):
            raise ValueError("build: column_stats and columns, those that the stats are of, need each other")
        if BuiltIndex.COLUMN_STATS in self.build and "partition_stats" in self.drop:
            raise ValueError("drop: partition_stats are kept up with column_stats, which stand under build")
        return self


class SavepointOptions(Settings):
    """Savepoints that are taken on a schedule. Of what a savepoint shows no clean deletes a file, and nothing that
    follows it leaves the timeline, until it is removed: hence the expiry. Those that a person made stay.
    """

    expire_after: Annotated[Duration, Within("10m", "3650d")] = Field(default="7d", validate_default=True)
    """One of ours that is older goes with the next run that takes one. The newest stays whatever its age."""

    savepoints_retained: Annotated[int, Within(1, 1000)] | None = None
    """How many of ours stay at most; by default only their age counts."""


class CatalogSyncOptions(Settings):
    """A Hive metastore lists no partition any more that was deleted from the table, by our ttl or by a writer. Nothing
    else that it says of the table is changed. It needs `pip install 'lakewarden[hive]'`.
    """

    uri: str | None = Field(default=None, pattern=URIS)
    """The metastore, `thrift://host:9083`, with commas between several: the first that answers is asked. Kerberos and
    TLS are not spoken. A table that was found in a metastore is known to that one."""

    database: str | None = Field(default=None, min_length=1)
    """The database of the table there; of a table that was found its own."""

    table: str | None = Field(default=None, min_length=1)
    """What the table is called there; of a table that was found its own name. Its views `_ro` and `_rt` are kept up as
    well."""

    timeout: Annotated[Duration, Within("100ms", "1m")] = Field(default="10s", validate_default=True)
    """A request that is not answered by then has failed. Some are made while the table's lock is held."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """The keys without which nobody knows what the table is called where."""
        return tuple(key for key in ("uri", "database", "table") if getattr(self, key) is None)


class MetadataRebuildOptions(Settings):
    """Dropping the metadata table and making it anew, with its indexes, in one hold of the table's lock."""

    look_for: Annotated[Duration, Within("1s", "5m")] = Field(default="1m", validate_default=True)
    """How long a moment without a write in flight is looked for; where there is none the run ends, and says so."""


class NoOptions(Settings):
    """A service about which there is nothing to be said."""


class TtlStrategy(StrEnum):
    """From when a partition's days count: its newest file, its oldest file, or the time that its own path names."""

    KEEP_BY_TIME = "keep_by_time"
    KEEP_BY_CREATION_TIME = "keep_by_creation_time"
    KEEP_BY_VALUE = "keep_by_value"


class TtlOptions(Settings):
    """Partitions that are deleted when they are old enough."""

    days_retain: Annotated[int, Within(1, 36_500)]
    """Days that a partition is kept (`hoodie.partition.ttl.strategy.days.retain`). There is no default: it deletes
    data."""

    strategy: TtlStrategy = TtlStrategy.KEEP_BY_TIME
    """From when they count. `keep_by_time`: the last write into the partition, a rewrite by a service included.
    `keep_by_creation_time`: the oldest of its files that is still there. `keep_by_value`: the time that its own path
    names, whatever was written to it since; rows that come into an expired partition go with the next run."""

    partition_value: str | None = None
    """With `keep_by_value`: how paths name their time, in the signs of `strptime`, as `dt=%Y-%m-%d`, or
    `%Y/%m/%d/%H`. It is read in the zone of the table's `spark` profile, and counts from when the day, hour, month or
    year that it names is over. A partition whose path does not fit is kept."""

    partition_selected: tuple[str, ...] = ()
    """Only these partitions (`hoodie.partition.ttl.strategy.partition.selected`); without it, all."""

    max_delete_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most that one run deletes (`hoodie.partition.ttl.strategy.max.delete.partitions`)."""

    silent_writes_touch: SilentWrites = SilentWrites.ANYTHING
    """What a write may touch that does not say where it writes: `anything`, so that a deletion waits for a moment
    without one; or only what is `warm`, written to within `days_retain`. Where that is not so, such a write fails when
    it meets a deletion of its partition."""

    @model_validator(mode="after")
    def _says_how_values_are_read(self) -> TtlOptions:
        pattern = self.partition_value
        if (self.strategy is TtlStrategy.KEEP_BY_VALUE) != (pattern is not None):
            raise ValueError("strategy: keep_by_value and partition_value, as dt=%Y-%m-%d, need each other")
        if pattern is not None and not _reads_times(pattern):
            raise ValueError(f"partition_value: {shown(pattern)} tells no time: write it like dt=%Y-%m-%d")
        return self


def _reads_times(pattern: str) -> bool:
    """Whether `strptime` reads what `strftime` writes by this pattern, and it tells the year."""
    some = datetime(2026, 11, 22, 13, tzinfo=UTC)
    try:
        return datetime.strptime(some.strftime(pattern), pattern).year == some.year  # noqa: DTZ007 - for its year
    except ValueError:
        return False
