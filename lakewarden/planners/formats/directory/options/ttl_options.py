"""What the owner of a directory sets for the end of its partitions."""

from __future__ import annotations

from typing import Annotated

from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Within


class TtlOptions(PartitionTimeOptions):
    """TTL: a partition is deleted when its time is long ago."""

    retain: Annotated[Duration, Within("1h", "3650d")] | None = None
    """So long a partition is kept after its time. There is no default, because it deletes data: without it the
    configuration is refused. Example: with `30d` the partition `dt=2026-03-01` is deleted from 2026-03-31 on."""

    max_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most partitions that one run deletes, the oldest first."""
