"""The options of each table service, in Paimon's own terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.partitions import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Settings, Size, Within, format_duration


class CompactStrategy(StrEnum):
    """How much of a bucket a compaction merges (`compact_strategy`)."""

    FULL = "full"
    MINOR = "minor"


class CompactionOptions(Settings):
    """Compaction: the sorted runs of a bucket become fewer, and small files of append tables become larger ones."""

    strategy: CompactStrategy = CompactStrategy.FULL
    """`full` merges all sorted runs of a bucket into one. `minor` merges those that Paimon's universal compaction
    picks, in buckets with at least `num-sorted-run.compaction-trigger` sorted runs. If readers wait for level 0,
    `minor` takes each bucket with files of level 0. With `changelog-producer=full-compaction`, and where a merge needs
    the oldest run, `minor` is `full`. Append tables know one strategy."""

    max_bytes: Annotated[Size, Within("1B", "1024TiB")] = Field(default="100GiB", validate_default=True)
    """The most bytes of buckets that one run compacts, those with the most sorted runs first. A single bucket may be
    larger. The other buckets wait for the next run."""

    max_buckets: Annotated[int, Within(1, 100_000)] = 1000
    """The most buckets that one run compacts. Of a table without buckets it is the number of partitions."""

    max_concurrent_buckets: Annotated[int, Within(1, 64)] = 2
    """How many buckets are compacted at a time. Each is a thread of the worker's JVM."""


class CleanOptions(Settings):
    """Clean: old snapshots expire, and the files that only they need are deleted (`expire_snapshots`)."""

    max_snapshot_age: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Older snapshots expire. The age of a snapshot counts from the commit after it. The default is the table's
    `snapshot.time-retained`, else one hour. It is never less than the table option `longest_outage`."""

    min_snapshots_to_keep: Annotated[int, Within(1, 1_000_000)] | None = None
    """How many of the newest snapshots always stay. The default is the table's `snapshot.num-retained.min`, else
    10."""

    max_snapshots: Annotated[int, Within(1, 100_000)] = 1000
    """The most snapshots that one run lets expire, the oldest first. The next run follows at once."""


class ArchiveOptions(Settings):
    """Archive: small manifests, and those that delete files, become fewer (`compact_manifest`). There are no
    options.
    """


class OrphansOptions(Settings):
    """Orphans: files below the table's folder that nothing names are deleted (`remove_orphan_files`)."""

    older_than: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Only older files are deleted, because a younger one may belong to a commit that has not ended. It is at least
    24h, and at least the table's `longest_outage` and `flink_restores`. The default is the longest of these and three
    days."""

    unknown_for: Annotated[Duration, Within("0s", "365d")] = Field(default="1d", validate_default=True)
    """For how long a file must be unknown to the table, in the listings of two runs, before it is deleted. It is at
    least the table's `longest_outage`. The first run that finds the file only remembers it."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 100_000
    """The most files that one run deletes, the oldest first. The next run follows at once."""


# What the owner of a Paimon table sets for the marking of its partitions, in Paimon's own terms.


class PartitionCommitOptions(PartitionTimeOptions):
    """Partition commit: a partition that is done gets Paimon's file `_SUCCESS` (the action `success-file`). What is not
    set here is as the table's own options say (`partition.timestamp-pattern`, `partition.timestamp-formatter`).
    """

    idle_time: Annotated[Duration, Within("0s", "3650d")] | None = None
    """A partition is done if no row came into it for this time, and if its time ended that long ago. The default is the
    table's `partition.idle-time-to-done`. If both are missing, nothing is marked."""

    time_interval: Annotated[Duration, Within("0s", "3650d")] | None = None
    """How long the time of a partition lasts, as `1h` of partitions by hour: it ends that long after the time that its
    values tell. The default is the table's `partition.time-interval`. If both are missing, the time of a partition
    does not matter."""

    compacted_first: bool = False
    """Mark a partition only if it has no file of level 0. Where readers do not see level 0, this holds anyway."""

    max_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most partitions that one run marks, those that rest for the longest time first."""


# Durations and sizes as Paimon's options write them.
#
# Source: Paimon 1.3.1, `org.apache.paimon.utils.TimeUtils.parseDuration` and `org.apache.paimon.options.MemorySize`.

_QUANTITY = re.compile(r"([0-9]{1,18})\s*([a-zµ]*)", re.ASCII | re.IGNORECASE)

_MICROSECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}
_LONGEST = timedelta(days=36_500)


def duration(text: str) -> timedelta:
    """Return a duration: `1 h`, `60s`, `100` (milliseconds). One of more than a century is a century.

    Raises ValueError for any other text.
    """
    microseconds = _product(text, _MICROSECONDS)
    return min(timedelta(microseconds=min(microseconds, _LONGEST // timedelta(microseconds=1))), _LONGEST)


def size(text: str) -> int:
    """Return a number of bytes: `128 mb`, `1g`, `1024`. Raises ValueError for any other text."""
    return _product(text, _BYTES)


def _product(text: str, units: dict[str, int]) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        raise ValueError(f"{text[:60]!r} is not a quantity")
    return int(match[1]) * unit


# Paimon's own options about partitions: when they are done, when they expire, and what their folders are called.
#
# Source: Paimon 1.3.1, `org.apache.paimon.CoreOptions` and `org.apache.paimon.flink.FlinkConnectorOptions`.

DEFAULT_NAME = "__DEFAULT_PARTITION__"
BY_VALUES, BY_UPDATE = "values-time", "update-time"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionOptions:
    """The options of one table. `mark_done` are the actions for a partition that is done. With `legacy_names` the
    folder of a date has the number of its day since 1970. If `in_metastore`, a catalog lists the partitions.
    """

    idle_time: timedelta | None = None
    time_interval: timedelta | None = None
    expiration_time: timedelta | None = None
    expiration_strategy: str = BY_VALUES
    timestamp_pattern: str | None = None
    timestamp_formatter: str | None = None
    mark_done: tuple[str, ...] = ("success-file",)
    default_name: str = DEFAULT_NAME
    legacy_names: bool = True
    in_metastore: bool = False


def partition_options(raw: Mapping[str, str]) -> PartitionOptions:
    """Return the options of a schema. Raises ValueError, which names the option, for a duration that is none."""
    actions = tuple(action.strip() for action in raw.get("partition.mark-done-action", "success-file").split(","))
    return PartitionOptions(
        idle_time=_duration(raw, "partition.idle-time-to-done"),
        time_interval=_duration(raw, "partition.time-interval"),
        expiration_time=_duration(raw, "partition.expiration-time"),
        expiration_strategy=raw.get("partition.expiration-strategy", BY_VALUES),
        timestamp_pattern=raw.get("partition.timestamp-pattern"),
        timestamp_formatter=raw.get("partition.timestamp-formatter"),
        mark_done=tuple(action for action in actions if action),
        default_name=raw.get("partition.default-name", DEFAULT_NAME),
        legacy_names=raw.get("partition.legacy-name", "true").lower() == "true",
        in_metastore=raw.get("metastore.partitioned-table", "false").lower() == "true",
    )


def _duration(raw: Mapping[str, str], key: str) -> timedelta | None:
    if key not in raw:
        return None
    try:
        return duration(raw[key])
    except ValueError as wrong:
        raise ValueError(f"the option {key} is {raw[key][:60]!r}, which Paimon does not take") from wrong


# What the owner of a Paimon table sets for the end of its partitions, in Paimon's own terms.


class ExpirationStrategy(StrEnum):
    """From when on the age of a partition counts (`partition.expiration-strategy`)."""

    VALUES_TIME = BY_VALUES
    UPDATE_TIME = BY_UPDATE


class TtlOptions(PartitionTimeOptions):
    """TTL: old partitions are dropped. What is not set here is as the table's own options say
    (`partition.timestamp-pattern`, `partition.timestamp-formatter`).
    """

    retain: Annotated[Duration, Within("1h", "3650d")] | None = None
    """So long a partition is kept. The default is the table's `partition.expiration-time`. If both are missing, nothing
    is dropped. Example: with `30d` the partition `dt=2026-03-01` is dropped from 2026-03-31 on."""

    strategy: ExpirationStrategy | None = None
    """`values-time` counts from the time that the values of a partition tell. `update-time` counts from the moment in
    which rows came into it last. The default is the table's `partition.expiration-strategy`, else `values-time`."""

    max_partitions: Annotated[int, Within(1, 100_000)] = 1000
    """The most partitions that one run drops, the oldest first."""


# How old and for how long unknown a file must be before it may be deleted. Settings, notes and programs ask here.

_USUAL = timedelta(days=3)
_A_COMMIT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanAge:
    """An age and its reason, for people. `option` is the table option that sets it, if one does."""

    age: timedelta
    because: str
    option: str | None = None

    def __str__(self) -> str:
        return f"{format_duration(self.age)} ({self.because})"


def least_age_of_orphans(table: PaimonTableOptions) -> OrphanAge:
    """Return the least age of a file before it may count as an orphan.

    A younger file may belong to a commit that has not ended, or to a checkpoint of Flink: a restored job commits files
    that it wrote before it stopped.
    """
    return max(
        OrphanAge(age=_A_COMMIT, because="a younger file may belong to a commit that is under way"),
        _by_option("longest_outage", table.longest_outage),
        _by_option("flink_restores", table.flink_restores),
        key=lambda age: age.age,
    )


def age_of_orphans(orphans: OrphansOptions, table: PaimonTableOptions) -> OrphanAge:
    """Return the age from which a file may count as an orphan: the age in the options, but at least the least age."""
    least = least_age_of_orphans(table)
    age = _USUAL if orphans.older_than is None else orphans.older_than
    if age < least.age:
        return least
    return OrphanAge(age=age, because="by default" if orphans.older_than is None else "older_than")


def unknown_for(orphans: OrphansOptions, table: PaimonTableOptions) -> timedelta:
    """Return for how long a file must be unknown before it is deleted."""
    return max(orphans.unknown_for, table.longest_outage)


def _by_option(option: str, age: timedelta) -> OrphanAge:
    why = "a job that is restored by then commits files that it wrote before it stopped"
    return OrphanAge(age=age, because=f"options.{option}, for {why}", option=option)
