"""The options of TTL: partitions that are deleted when they are old enough."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import model_validator

from lakewarden.planners.formats.hudi.options.service_options import SilentWrites
from lakewarden.planners.settings import Settings, Within, shown


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
