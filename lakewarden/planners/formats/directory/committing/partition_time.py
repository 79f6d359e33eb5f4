"""The time of a partition of a directory, which the names of its folders tell. Pure."""

from __future__ import annotations

from datetime import datetime

from lakewarden.planners.formats.directory.listing.names import partition_values
from lakewarden.planners.partitions.partition_time import time_of
from lakewarden.planners.partitions.time_options import PartitionTimeOptions


def partition_time(path: str, options: PartitionTimeOptions) -> datetime | None:
    """Return the time of the partition at a path below the table, in UTC; None where its values tell none."""
    return time_of(partition_values(path), options)
