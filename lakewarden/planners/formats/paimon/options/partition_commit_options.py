"""What the owner of a Paimon table sets for the marking of its partitions, in Paimon's own terms."""

from __future__ import annotations

from typing import Annotated

from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Within


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
