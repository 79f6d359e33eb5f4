"""The time of a partition is what Flink's `DefaultPartTimeExtractor` reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.committing import partition_time
from lakewarden.planners.formats.directory.options import PartitionCommitOptions


def time_of(path: str, **options: Any) -> str | None:
    found = partition_time(path, PartitionCommitOptions.model_validate(options))
    return None if found is None else found.isoformat().replace("+00:00", "Z")


HOURLY = "$dt $hour:00:00"


@pytest.mark.parametrize(
    ("path", "options", "time"),
    [
        ("dt=2026-03-01/hour=07", {"timestamp_pattern": HOURLY}, "2026-03-01T07:00:00Z"),
        ("dt=2026-3-1/hour=7", {"timestamp_pattern": HOURLY}, "2026-03-01T07:00:00Z"),
        ("dt=2026-03-01/hour=24", {"timestamp_pattern": HOURLY}, "2026-03-02T00:00:00Z"),
        ("dt=2026-13-01/hour=0", {"timestamp_pattern": HOURLY}, "2027-01-01T00:00:00Z"),
        ("dt=2026-02-31/hour=0", {"timestamp_pattern": HOURLY}, "2026-03-03T00:00:00Z"),
        ("dt=2026-03-01/hour=07/region=eu", {"timestamp_pattern": HOURLY}, "2026-03-01T07:00:00Z"),
        ("dt=2026-03-01", {}, "2026-03-01T00:00:00Z"),
        ("dt=2026-03-01 10%3A30%3A00", {}, "2026-03-01T10:30:00Z"),
        ("dt=2026-03-01 10:30:00.25", {}, "2026-03-01T10:30:00.250000Z"),
        ("dt=2026-03-01 10:30", {}, None),
        ("dt=__HIVE_DEFAULT_PARTITION__", {}, None),
        ("dt=__DEFAULT_PARTITION__/hour=07", {"timestamp_pattern": HOURLY}, None),
        ("2026/03/01", {}, None),
        ("dt=2026-03-01", {"timestamp_pattern": HOURLY}, None),
        ("d=1/dt=2026-03-01", {"timestamp_pattern": "$dt"}, None),  # Flink replaces $d in $dt, too
        ("day=20260301/hour=07", {"timestamp_pattern": "$day$hour", "timestamp_formatter": "yyyyMMddHH"},
         "2026-03-01T07:00:00Z"),
        ("day=20260301", {"timestamp_formatter": "yyyyMMdd"}, "2026-03-01T00:00:00Z"),
        ("day=20260231", {"timestamp_formatter": "yyyyMMdd"}, None),
        ("y=2026/m=3/d=1/h=7", {"columns": ["y", "m", "d", "h"]}, "2026-03-01T07:00:00Z"),
        ("y=2026/m=3", {"columns": ["y", "m"]}, "2026-03-01T00:00:00Z"),
        ("y=2026/m=13", {"columns": ["y", "m"]}, None),
        ("y=2026/m=March", {"columns": ["y", "m"]}, None),
        ("dt=2026-01-15", {"time_zone": "Asia/Shanghai"}, "2026-01-14T16:00:00Z"),
        ("dt=2026-07-01", {"time_zone": "Europe/Berlin"}, "2026-06-30T22:00:00Z"),
        # 02:30 is left out on this day: `atZone` takes 03:30, which is the same moment.
        ("dt=2026-03-29 02:30:00", {"time_zone": "Europe/Berlin"}, "2026-03-29T01:30:00Z"),
        # 02:30 comes twice on this day: `atZone` takes the first.
        ("dt=2026-10-25 02:30:00", {"time_zone": "Europe/Berlin"}, "2026-10-25T00:30:00Z"),
        ("dt=0001-01-01", {"time_zone": "Asia/Shanghai"}, None),
        ("dt=9999999999-01-01", {}, None),
    ],
)  # fmt: skip
def test_a_partition_time_is_flinks(path: str, options: dict[str, Any], time: str | None) -> None:
    """Each line was worked out by hand from Flink's source. Where Flink's job would fail, there is no time."""
    assert time_of(path, **options) == time


@given(moment=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_every_written_time_is_read_back(moment: datetime) -> None:
    """By the pattern, by the formatter and by columns alike."""
    hour = moment.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
    path = f"dt={hour:%Y-%m-%d}/hour={hour:%H}"
    by_columns = f"y={hour.year}/m={hour.month}/d={hour.day}/h={hour.hour}"
    compact = f"t={hour:%Y%m%d%H}"
    read = [
        partition_time(path, PartitionCommitOptions(timestamp_pattern=HOURLY)),
        partition_time(by_columns, PartitionCommitOptions(columns=("y", "m", "d", "h"))),
        partition_time(compact, PartitionCommitOptions(timestamp_formatter="yyyyMMddHH")),
    ]
    assert read == [hour] * 3


@given(path=st.text(max_size=60), pattern=st.sampled_from([None, HOURLY, "$dt", "x"]))
def test_no_name_of_a_folder_is_an_error(path: str, pattern: str | None) -> None:
    """Whatever a writer calls its folders."""
    partition_time(path, PartitionCommitOptions(timestamp_pattern=pattern))
