"""Paimon's own options about partitions: when they are done, when they expire, and what their folders are called.

Source: Paimon 1.3.1, `org.apache.paimon.CoreOptions` and `org.apache.paimon.flink.FlinkConnectorOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.formats.paimon.options.units import duration

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
    actions = tuple(one.strip() for one in raw.get("partition.mark-done-action", "success-file").split(","))
    return PartitionOptions(
        idle_time=_duration(raw, "partition.idle-time-to-done"),
        time_interval=_duration(raw, "partition.time-interval"),
        expiration_time=_duration(raw, "partition.expiration-time"),
        expiration_strategy=raw.get("partition.expiration-strategy", BY_VALUES),
        timestamp_pattern=raw.get("partition.timestamp-pattern"),
        timestamp_formatter=raw.get("partition.timestamp-formatter"),
        mark_done=tuple(one for one in actions if one),
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
