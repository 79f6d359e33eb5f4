"""A partition expires by the newest of its files. If that is not known, nothing is deleted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.hudi.deletion.expiry import (
    Partition,
    Term,
    partition_of,
    read_partitions,
    value_ends_at,
)
from lakewarden.planners.formats.hudi.options.service_options import TtlOptions, TtlStrategy
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.local import LocalStorage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _file(name: str, age: timedelta) -> FileEntry:
    return FileEntry(name=name, size=1, modified=NOW - age)


def expired(partition: Partition, *, days: int, strategy: TtlStrategy = TtlStrategy.KEEP_BY_TIME) -> bool:
    return Term(strategy=strategy, days=days).has_expired(partition, now=NOW)


@given(ages=st.lists(st.timedeltas(timedelta(0), timedelta(days=5000)), min_size=1), days=st.integers(1, 4000))
def test_a_partition_expires_by_its_newest_file(ages: list[timedelta], days: int) -> None:
    """This also holds for 25 days and more."""
    partition = partition_of("p0", [_file(f"f{n}-0_0_1.parquet", age) for n, age in enumerate(ages)])
    assert expired(partition, days=days) == (min(ages) > timedelta(days=days))


def test_an_update_in_a_log_file_keeps_a_partition() -> None:
    """Its base file is as old as before."""
    base = _file("a-0_0-1-2_20250101000000000.parquet", timedelta(days=60))
    log = _file(".a-0_20260228000000000.log.1_0-1-2", timedelta(days=1))
    assert expired(partition_of("p0", [base]), days=30)
    assert not expired(partition_of("p0", [base, log]), days=30)


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
    """A partition without data files, or in a store that does not say when they were written, never expires."""
    assert not expired(partition_of("p0", entries), days=1)
    assert not expired(partition_of("p0", entries), days=1, strategy=TtlStrategy.KEEP_BY_CREATION_TIME)


@pytest.mark.parametrize("name", ["c-0_0-1-2_20260228.lance", "c-0_0-1-2_20260228.vortex", "c-0_0-1-2_20260228"])
def test_a_file_of_a_format_that_we_do_not_know_keeps_a_partition(name: str) -> None:
    """A file beside a log file of last year may hold rows unless it is Hudi's metadata. So the partition is young."""
    log = _file(".a-0_20250101000000000.log.1_0-1-2", timedelta(days=400))
    hidden = [_file(".hoodie_partition_metadata", timedelta(0)), _file(".c.lance.crc", timedelta(0))]
    assert expired(partition_of("p0", [log, *hidden]), days=30)
    assert not expired(partition_of("p0", [log, *hidden, _file(name, timedelta(hours=1))]), days=30)


@given(ages=st.lists(st.timedeltas(timedelta(0), timedelta(days=5000)), min_size=1), days=st.integers(1, 4000))
def test_by_creation_a_partition_expires_by_the_oldest_of_its_files(ages: list[timedelta], days: int) -> None:
    """A partition that was dropped and filled again is as old as its new files. Its metadata file would be older."""
    written = [_file(f"f{n}-0_0_1.parquet", age) for n, age in enumerate(ages)]
    partition = partition_of("p0", [*written, _file(".hoodie_partition_metadata", timedelta(days=9000))])
    assert expired(partition, days=days, strategy=TtlStrategy.KEEP_BY_CREATION_TIME) == (max(ages) > timedelta(days))


def by_value(pattern: str, *, days: int = 30, zone: str = "UTC") -> Term:
    options = TtlOptions(days_retain=days, strategy=TtlStrategy.KEEP_BY_VALUE, partition_value=pattern)
    return Term.of(options, zone=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("pattern", "path", "ends"),
    [
        ("dt=%Y-%m-%d", "dt=2026-01-01", "2026-01-02T00:00"),
        ("dt=%Y-%m-%d", "dt=2026-01-01/region=eu", "2026-01-02T00:00"),
        ("%Y/%m/%d/%H", "2026/01/01/05", "2026-01-01T06:00"),
        ("%Y%j", "2026001", "2026-01-02T00:00"),
        ("month=%Y-%m", "month=2026-01", "2026-02-01T00:00"),
        ("y=%Y", "y=2026", "2027-01-02T00:00"),
    ],
)
def test_by_value_a_partition_expires_when_what_its_path_names_is_over(pattern: str, path: str, ends: str) -> None:
    """The days count from the end of the hour, day, month or year. A late row's fresh file does not matter."""
    end = datetime.fromisoformat(ends).replace(tzinfo=UTC)
    fresh = partition_of(path, [FileEntry(name="a_0_1.parquet", size=1, modified=end + timedelta(days=30))])
    term = by_value(pattern)
    assert not term.has_expired(fresh, now=end + timedelta(days=30))
    assert term.has_expired(fresh, now=end + timedelta(days=30, seconds=1))
    assert not term.has_expired(partition_of(path, []), now=end + timedelta(days=31)), "there is nothing to delete"


def test_a_value_is_a_time_of_the_tables_own_zone() -> None:
    """A day in Los Angeles ends eight hours after London's."""
    term = by_value("dt=%Y-%m-%d", zone="America/Los_Angeles")
    over = datetime(2026, 1, 2, 8, tzinfo=UTC) + timedelta(days=30)
    assert not term.may_have_expired("dt=2026-01-01", now=over)
    assert term.may_have_expired("dt=2026-01-01", now=over + timedelta(seconds=1))


@given(path=st.text(max_size=30) | st.from_regex(r"dt=[0-9]{1,6}-[0-9]{1,3}-[0-9]{1,3}", fullmatch=True))
def test_a_path_that_names_no_time_never_expires(path: str) -> None:
    """This holds for `__HIVE_DEFAULT_PARTITION__`, a day that does not exist, a time to come, and the end of time."""
    try:
        day = datetime.strptime(path.partition("/")[0], "dt=%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        assert not by_value("dt=%Y-%m-%d", days=1).may_have_expired(path, now=NOW)
    else:
        expected = NOW - day > timedelta(days=2) and f"{day:dt=%Y-%m-%d}" == path.partition("/")[0]
        assert by_value("dt=%Y-%m-%d", days=1).may_have_expired(path, now=NOW) is expected


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "keep_by_value"},
        {"partition_value": "dt=%Y-%m-%d"},
        {"strategy": "keep_by_value", "partition_value": "dt=2026"},
        {"strategy": "keep_by_value", "partition_value": "%m-%d"},
        {"strategy": "keep_by_value", "partition_value": "%Q"},
    ],
)
def test_a_value_that_tells_no_time_is_refused(options: dict[str, str]) -> None:
    """No deletion rests on a guess."""
    with pytest.raises(ValidationError, match="partition_value"):
        TtlOptions.model_validate({"days_retain": 30, **options})


class _Together(LocalStorage):
    """A store that answers eight listings together, and none before."""

    def __init__(self) -> None:
        super().__init__()
        self._eight = threading.Barrier(8)

    def listing(self, location: str, *, most: int = 10) -> Sequence[FileEntry]:
        self._eight.wait(timeout=300)
        return [_file("a_0_1.parquet", timedelta(days=1))]


def test_partitions_are_listed_many_at_a_time() -> None:
    """A hundred thousand on S3, one after the other, took an hour."""
    read = read_partitions("/t", [f"p{n}" for n in range(96)], _Together())
    assert [*read] == [f"p{n}" for n in range(96)]


@pytest.mark.parametrize(
    "path", ["DT=2020-01-01", "dt=\uff12\uff10\uff12\uff10-01-01", "dt=2020-1-2", "dt=2020-01-01 ", " dt=2020-01-01"]
)
def test_by_value_a_path_that_the_pattern_would_not_write_is_kept(path: str) -> None:
    """On a case-sensitive store it is another partition, which the policy does not name (seen: 12 rows gone)."""
    assert not by_value("dt=%Y-%m-%d", days=1).may_have_expired(path, now=NOW)


@given(
    day=st.dates(min_value=date(1000, 1, 1)),
    spelled=st.text(alphabet="dDtT=0123456789-\uff10\uff11 /", max_size=14),
    pattern=st.sampled_from(["dt=%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "y=%Y/m=%m", "dt=%Y-%j"]),
)
def test_by_value_no_two_paths_of_one_depth_name_the_same_time(day: date, spelled: str, pattern: str) -> None:
    """Exactly one spelling of a time expires."""
    one = day.strftime(pattern)
    ends = value_ends_at(one, pattern, UTC)
    other = value_ends_at(spelled, pattern, UTC)
    depth = pattern.count("/") + 1
    assert ends is not None or day.year == 9999
    assert other is None or other != ends or spelled.split("/")[:depth] == one.split("/")


def test_what_fills_a_deleted_partition_again_does_not_expire_by_the_files_of_before() -> None:
    """They stay there until a clean: a ttl by creation took rows that a writer had just written (run)."""
    now = datetime(2026, 11, 22, tzinfo=UTC)
    refilled = Partition(path="p", files=5, written_at=now, created_at=now - timedelta(days=9))
    gone = Partition(path="p", files=5, written_at=now - timedelta(days=8), created_at=now - timedelta(days=9))
    term = Term(strategy=TtlStrategy.KEEP_BY_CREATION_TIME, days=7)

    assert term.has_expired(refilled, now=now)
    assert not term.has_expired(refilled, now=now, deleted_before=True)
    assert term.has_expired(gone, now=now, deleted_before=True)
