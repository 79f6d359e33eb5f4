"""How the time of a partition is read from its name, in the terms of Flink's filesystem sink."""

from __future__ import annotations

from pydantic import Field, model_validator

from lakewarden.planners.partitions.time_pattern import time_pattern
from lakewarden.planners.settings import Settings, TimeZone


class PartitionTimeOptions(Settings):
    """How the values of a partition's columns become its time."""

    time_zone: TimeZone = "UTC"
    """The time zone of partition times (`sink.partition-commit.watermark-time-zone`)."""

    timestamp_pattern: str | None = Field(default=None, min_length=1, max_length=500)
    """How a partition time is put together from the values of partition columns, as in `$dt $hour:00:00`
    (`partition.time-extractor.timestamp-pattern`). By default the value of the first column."""

    timestamp_formatter: str | None = Field(default=None, min_length=1, max_length=100)
    """How the text is read as a time, as in `yyyyMMdd HH:mm:ss` (`partition.time-extractor.timestamp-formatter`). The
    letters are y, M, d, H, m and s. By default `yyyy-MM-dd HH:mm:ss`, or `yyyy-MM-dd`."""

    columns: tuple[str, ...] = Field(default=(), max_length=6)
    """The partition columns that hold the year, month, day, hour, minute and second as numbers, in this order, in place
    of `timestamp_pattern`."""

    @model_validator(mode="after")
    def _one_way_to_a_time(self) -> PartitionTimeOptions:
        if self.timestamp_formatter is not None:
            time_pattern(self.timestamp_formatter)
        if self.columns and (self.timestamp_pattern is not None or self.timestamp_formatter is not None):
            raise ValueError("columns and timestamp_pattern are two ways to a partition time: set one of them")
        return self
