"""What the owner of a Paimon table sets for the end of its partitions, in Paimon's own terms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from lakewarden.planners.formats.paimon.options.partition_options import BY_UPDATE, BY_VALUES
from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Within


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
