"""What the owner of a Hudi table sets for each table service, in Hudi's own terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.settings import Duration, Settings, Size, Within, format_size, shown
from lakewarden.planners.triggers import AllOf, AnyOf, NumCommits, NumCommitsAfterLastRequest, TimeElapsed, Trigger

_Options = TypeVar("_Options", bound=Settings)


def options_of(table: Table, service: Service, kind: type[_Options]) -> _Options | None:
    """Return the options of a table's policy for a service. None without a policy, or if it sets none."""
    policy = table.policies.get(service)
    return policy.options if policy is not None and isinstance(policy.options, kind) else None


class CompactionOptions(Settings):
    """Compaction of merge-on-read file groups."""

    target_io_mb: Annotated[int, Within(1, 1_000_000_000)] = 512_000
    """The most that one plan reads and writes, in MB (`hoodie.compaction.target.io`)."""


class CleanPolicy(StrEnum):
    """`hoodie.clean.policy`."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


RETAINED_BY_HUDI = 10
"""`hoodie.clean.commits.retained` as Hudi sets it."""

HOURS_BY_HUDI = 24
"""`hoodie.clean.hours.retained` as Hudi sets it."""


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
    always with KEEP_LATEST_FILE_VERSIONS, a clean looks into every partition."""

    max_commits_to_clean: Annotated[int, Within(1, 1_000_000)] | None = None
    """By how many commits one clean advances (`hoodie.clean.max.commits.to.clean`), no limit by default. It counts from
    where the last clean ended. It bounds neither a table's first clean nor KEEP_LATEST_FILE_VERSIONS."""

    slices_from_commits: Annotated[int, Within(1, 1_000_000)] | None = 100
    """A table was neglected if more commits than this (and than are retained) are to be cleaned. It is cleaned in
    slices, each within its deletion budget, without an operator. `null`: all at once, and an operator is asked beyond
    the budget. With KEEP_LATEST_FILE_VERSIONS it is always all at once."""

    @model_validator(mode="after")
    def _only_what_the_policy_counts(self) -> CleanOptions:
        if self.max_commits_to_clean is not None and self.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
            raise ValueError(
                f"max_commits_to_clean: {self.max_commits_to_clean} has no effect under policy: {self.policy}"
            )
        counted = {
            CleanPolicy.KEEP_LATEST_COMMITS: "commits_retained",
            CleanPolicy.KEEP_LATEST_FILE_VERSIONS: "file_versions_retained",
            CleanPolicy.KEEP_LATEST_BY_HOURS: "hours_retained",
        }
        for policy, key in counted.items():
            value = getattr(self, key)
            if value is not None and policy is not self.policy:
                raise ValueError(f"{key}: {value} has no effect under policy: {self.policy}; it belongs to {policy}")
        return self


class LogCompactionOptions(Settings):
    """Log compaction of merge-on-read file groups: many log blocks become one, and no base file is rewritten."""

    log_blocks_threshold: Annotated[int, Within(2, 1_000_000)] = 5
    """The least log blocks from which on a file group is taken (`hoodie.log.compaction.blocks.threshold`)."""


class LayoutStrategy(StrEnum):
    """How rows are laid out: `hoodie.layout.optimize.strategy`, or no way at all."""

    NONE = "none"
    """Files of one schema are joined as they are, row group by row group, without decoding
    (`SparkStreamCopyClusteringPlanStrategy`). Where that would be wrong they are rewritten as by `linear`: in
    merge-on-read tables, under an index of keys, with bloom filters of several kinds."""

    LINEAR = "linear"
    Z_ORDER = "z-order"
    HILBERT = "hilbert"


class SilentWrites(StrEnum):
    """What a write in flight may touch if it does not say which partitions it writes to. Flink's writes and bulk
    inserts never say it. Any other write says it only after it has looked its rows up.
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
    """The most bytes of a new file (`hoodie.clustering.plan.strategy.target.file.max.bytes`)."""

    max_bytes_per_group: Annotated[Size, Within("1B", "1024TiB")] = Field(default="2GiB", validate_default=True)
    """The most that is rewritten as one group (`hoodie.clustering.plan.strategy.max.bytes.per.group`)."""

    max_num_groups: Annotated[int, Within(1, 1_000_000)] = 30
    """The most groups in one plan (`hoodie.clustering.plan.strategy.max.num.groups`)."""

    partition_regex: str | None = None
    """Only partitions with a path that matches (`hoodie.clustering.plan.strategy.partition.regex.pattern`)."""

    untouched_for: Annotated[Duration, Within("0s", "3650d")] = Field(default="1h", validate_default=True)
    """A partition is taken when no commit has touched it for this long. With a shorter time, updates that arrive late
    meet a pending clustering and fail. The active timeline must reach further back than this: before its beginning any
    partition may have been touched."""

    silent_writes_touch: SilentWrites = SilentWrites.ANYTHING
    """What a write may touch if it does not say where it writes. `anything`: a clustering waits for a moment without
    such a write, and never runs under a Flink job that never pauses. `warm`: only partitions that were written to
    within `untouched_for`. If that is wrong, such a write fails when it meets a clustering."""

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
            raise ValueError(f"{shown(value)} is not a regular expression: {error}") from error
        return value


class ArchiveOptions(Settings):
    """Which instants leave the active timeline for the archived one."""

    keep_min_commits: Annotated[int, Within(2, 1_000_000)] = 20
    """Commits that stay after archiving (`hoodie.keep.min.commits`). They must be more than any trigger of the table
    counts, and more than its clean retains."""

    keep_max_commits: Annotated[int, Within(3, 1_000_000)] = 30
    """Archiving begins above this number of commits (`hoodie.keep.max.commits`)."""

    @model_validator(mode="after")
    def _in_order(self) -> ArchiveOptions:
        if self.keep_min_commits >= self.keep_max_commits:
            raise ValueError(
                f"keep_min_commits: {self.keep_min_commits} must be below keep_max_commits: {self.keep_max_commits}"
            )
        return self


class RollbackOptions(Settings):
    """Rolling back what dead writers and dead services left unfinished."""

    without_heartbeat_after: Annotated[Duration, Within("10m", "3650d")] | None = None
    """A write that was never seen with a heartbeat counts as dead at this age. By default only an operator rolls it
    back. A writer that is not LAZY never shows a heartbeat, and its write may take any time: a Flink job without input
    keeps one write in flight for a weekend. If all writers are LAZY, declare that (`failed_writes: lazy`)."""


class BuiltIndex(StrEnum):
    """An index that Lakewarden can build, by the name of its partition of the metadata table."""

    RECORD_INDEX = "record_index"
    BLOOM_FILTERS = "bloom_filters"
    COLUMN_STATS = "column_stats"


class IndexingOptions(Settings):
    """Indexes of the metadata table that are built or dropped. A plan of an indexer that was not begun is finished as
    well. Writers wait for the table's lock while an index is built, because Hudi leaves out of it what they commit
    meanwhile.
    """

    build: tuple[BuiltIndex, ...] = ()
    """Indexes that the table should have. Give the writers what `writer-options` prints first: Hudi drops an index that
    a writer's own options do not name, and a writer that names one builds it itself. With column_stats a partitioned
    table also gets partition_stats, because Hudi keeps up neither alone."""

    columns: tuple[str, ...] = ()
    """The columns of column_stats, if they are to be built. Existing stats keep their columns."""

    largest_table: Annotated[Size, Within("1MiB", "1024TiB")] = Field(default="10GiB", validate_default=True)
    """An index of a table with more bytes is not built. Column stats and bloom filters read the footers of all base
    files, a record index reads their keys, and writers wait meanwhile. A build that takes eight minutes is given up."""

    drop: tuple[str, ...] = ()
    """Indexes that the table should not have, by their partition in the metadata table, as in `column_stats`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> IndexingOptions:
        both = sorted(set(self.build) & set(self.drop))
        if both:
            raise ValueError(f"drop: {both[0]} stands under build, too")
        if "files" in self.drop:
            raise ValueError("drop: files is not an index but the metadata table itself")
        if (BuiltIndex.COLUMN_STATS in self.build) != bool(self.columns):
            raise ValueError("build: column_stats and columns, which name the columns of the stats, need each other")
        if BuiltIndex.COLUMN_STATS in self.build and "partition_stats" in self.drop:
            raise ValueError("drop: partition_stats are kept up with column_stats, which stand under build")
        return self


class SavepointOptions(Settings):
    """Savepoints that are taken on a schedule. Until a savepoint is removed, no clean deletes a file that it shows, and
    nothing that follows it leaves the timeline: hence the expiry. Savepoints that people made stay.
    """

    expire_after: Annotated[Duration, Within("10m", "3650d")] = Field(default="7d", validate_default=True)
    """A savepoint of Lakewarden that is older is removed by the next run that takes one. The newest stays at
    any age."""

    savepoints_retained: Annotated[int, Within(1, 1000)] | None = None
    """The most savepoints of Lakewarden that stay. By default only their age counts."""


class CatalogSyncOptions(Settings):
    """A Hive metastore stops listing partitions that were deleted from the table, by Lakewarden's ttl or by a writer.
    Nothing else in its entry is changed. It needs the extra `hive`.
    """

    uri: str | None = Field(default=None, pattern=URIS, examples=["thrift://metastore:9083"])
    """The metastore, `thrift://host:9083`, with commas between several. The first that answers is used. Kerberos and
    TLS are not supported. The default of a table that was found in a metastore is that one."""

    database: str | None = Field(default=None, min_length=1)
    """The database of the table there. The default of a table that was found is its own."""

    table: str | None = Field(default=None, min_length=1)
    """The name of the table there. The default of a table that was found is its own. Its views `_ro` and `_rt` are
    kept up as well."""

    timeout: Annotated[Duration, Within("100ms", "1m")] = Field(default="10s", validate_default=True)
    """A request fails if it is not answered within this time. Some are made while the table's lock is held."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """The keys that are missing to name the table in its metastore."""
        return tuple(key for key in ("uri", "database", "table") if getattr(self, key) is None)


def catalog_sync_of(table: Table) -> CatalogSyncOptions | None:
    """Return where a catalog lists the table's partitions, if a policy asks for catalog sync."""
    return options_of(table, Service.CATALOG_SYNC, CatalogSyncOptions)


class MetadataRebuildOptions(Settings):
    """Dropping the metadata table and making it again, with its indexes, while the table's lock is held once."""

    max_wait_for_writers: Annotated[Duration, Within("1s", "5m")] = Field(default="1m", validate_default=True)
    """How long a moment without a write in flight is looked for. If there is none, the run ends and says so."""


class NoOptions(Settings):
    """A service without options."""


# The options of TTL: partitions that are deleted when they are old enough.


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
    """From when they count. `keep_by_time`: the last write into the partition, or its rewrite by a service.
    `keep_by_creation_time`: the oldest of its remaining files. `keep_by_value`: the time in its path, whatever was
    written to it since. Rows that come into an expired partition are deleted by the next run."""

    partition_value: str | None = None
    """With `keep_by_value`: how paths name their time, in the signs of `strptime`, as `dt=%Y-%m-%d`, or `%Y/%m/%d/%H`.
    It is read in the zone of the table's `spark` profile. The days count from the end of the day, hour, month or year.
    If the path of a partition does not fit, the partition is kept."""

    partition_selected: tuple[str, ...] = ()
    """Only these partitions (`hoodie.partition.ttl.strategy.partition.selected`); without it, all."""

    max_delete_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most that one run deletes (`hoodie.partition.ttl.strategy.max.delete.partitions`)."""

    silent_writes_touch: SilentWrites = SilentWrites.ANYTHING
    """What a write may touch if it does not say where it writes. `anything`: a deletion waits for a moment without such
    a write. `warm`: only partitions that were written to within `days_retain`. If that is wrong, such a write fails
    when it meets a deletion of its partition."""

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


# The names of Hudi's own trigger strategies (`hoodie.compact.inline.trigger.strategy`), and their triggers.
#
# A name alone has Hudi's default numbers. With numbers it is written as `{NUM_OR_TIME: {num_commits: 5, time_elapsed:
# 1h}}`.

_COMMITS = 5  # hoodie.compact.inline.max.delta.commits
_ELAPSED = timedelta(hours=1)  # hoodie.compact.inline.max.delta.seconds


def _commits(argument: Any) -> Trigger:
    return NumCommits.read(_COMMITS if argument is None else argument)


def _after_request(argument: Any) -> Trigger:
    return NumCommitsAfterLastRequest.read(_COMMITS if argument is None else argument)


def _elapsed(argument: Any) -> Trigger:
    return TimeElapsed.read(_ELAPSED if argument is None else argument)


def _commits_and_time(argument: Any) -> tuple[Trigger, Trigger]:
    argument = {} if argument is None else argument
    if not isinstance(argument, Mapping) or not set(argument) <= {"num_commits", "time_elapsed"}:
        raise ValueError("needs num_commits and time_elapsed, as in {num_commits: 5, time_elapsed: 1h}")
    return _commits(argument.get("num_commits")), _elapsed(argument.get("time_elapsed"))


STRATEGIES: Mapping[str, Callable[[Any], Trigger]] = {
    "NUM_COMMITS": _commits,
    "NUM_COMMITS_AFTER_LAST_REQUEST": _after_request,
    "TIME_ELAPSED": _elapsed,
    "NUM_AND_TIME": lambda argument: AllOf(triggers=_commits_and_time(argument)),
    "NUM_OR_TIME": lambda argument: AnyOf(triggers=_commits_and_time(argument)),
}
