"""The time of a partition, by the options of its service, else by those of the table. Pure."""

from __future__ import annotations

from datetime import datetime

from lakewarden.planners.formats.paimon.options.partition_options import PartitionOptions
from lakewarden.planners.formats.paimon.partitions.names import PartitionName
from lakewarden.planners.partitions.partition_time import time_of
from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.partitions.time_pattern import time_pattern


def times_by(own: PartitionTimeOptions, table: PartitionOptions) -> PartitionTimeOptions:
    """Return how the times of partitions are read. Raises ValueError for a formatter of the table that is not read
    here.
    """
    if own.columns:
        return own
    formatter = own.timestamp_formatter or table.timestamp_formatter
    if formatter is not None:
        time_pattern(formatter)
    return PartitionTimeOptions(
        time_zone=own.time_zone,
        timestamp_pattern=own.timestamp_pattern or table.timestamp_pattern,
        timestamp_formatter=formatter,
    )


def time_of_name(name: PartitionName, options: PartitionTimeOptions) -> datetime | None:
    """Return the time of a partition, in UTC; None if its values tell none.

    Of two columns the one with the longer name is looked for first, so that `$dt` is not found in `$dtime`.
    """
    values = name.values
    if options.timestamp_pattern is not None:
        values = {key: values[key] for key in sorted(values, key=len, reverse=True)}
    return time_of(values, options)
