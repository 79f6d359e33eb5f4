"""A partition expires by the newest of its files; of what is not known nothing is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.expiry import partition_of
from lakewarden.planners.ports import FileEntry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _file(name: str, age: timedelta) -> FileEntry:
    return FileEntry(name=name, size=1, modified=NOW - age)


@given(ages=st.lists(st.timedeltas(timedelta(0), timedelta(days=5000)), min_size=1), days=st.integers(1, 4000))
def test_a_partition_expires_by_its_newest_file(ages: list[timedelta], days: int) -> None:
    """Also for terms of 25 days and more."""
    partition = partition_of("p0", [_file(f"f{n}-0_0_1.parquet", age) for n, age in enumerate(ages)])
    assert partition.expired(days=days, now=NOW) == (min(ages) > timedelta(days=days))


def test_an_update_in_a_log_file_keeps_a_partition() -> None:
    """Its base file is as old as before."""
    base = _file("a-0_0-1-2_20250101000000000.parquet", timedelta(days=60))
    log = _file(".a-0_20260228000000000.log.1_0-1-2", timedelta(days=1))
    assert partition_of("p0", [base]).expired(days=30, now=NOW)
    assert not partition_of("p0", [base, log]).expired(days=30, now=NOW)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [FileEntry(name=".hoodie_partition_metadata", size=1, modified=NOW - timedelta(days=900))],
        [FileEntry(name="a_0_1.parquet", size=1, modified=EPOCH)],
        [_file("a_0_1.parquet", timedelta(days=900)), FileEntry(name="b_0_1.parquet", size=1, modified=EPOCH)],
    ],
)
def test_what_is_not_known_does_not_expire(entries: list[FileEntry]) -> None:
    """No data files, or a store that does not say when they were written."""
    assert not partition_of("p0", entries).expired(days=1, now=NOW)
