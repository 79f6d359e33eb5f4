"""A partition expires by the newest of its files. If that is not known, nothing is deleted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.decide import Idle, ServiceState, decide
from lakewarden.planners.formats.hudi.deletion.expiry import (
    MARK,
    Partition,
    Term,
    noted,
    partition_of,
    place_in,
    read_deletions,
    read_partitions,
    value_ends_at,
)
from lakewarden.planners.formats.hudi.metadata.payloads import whole_timeline
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions, TtlOptions, TtlStrategy
from lakewarden.planners.model.decision import Due, NotDue
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.triggers import TimeElapsed
from tests.support.hudi.hudi_look import look, made, seen
from tests.support.hudi.hudi_table import HudiTable, base_file

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _file(name: str, age: timedelta) -> FileEntry:
    return FileEntry(name=name, size=1, modified=NOW - age)


def expired(partition: Partition, *, days: int, strategy: TtlStrategy = TtlStrategy.KEEP_BY_TIME) -> bool:
    return Term(strategy=strategy, days=days).has_expired(partition, now=NOW)


@given(ages=st.lists(st.timedeltas(timedelta(0), timedelta(days=5000)), min_size=1), days=st.integers(1, 4000))
def test_a_partition_expires_by_its_newest_file_and_by_creation_by_its_oldest(ages: list[timedelta], days: int) -> None:
    """This also holds for 25 days and more. A partition that was dropped and filled again is as old as its new files.
    Its metadata file would be older.
    """
    written = [_file(f"f{n}-0_0_1.parquet", age) for n, age in enumerate(ages)]
    partition = partition_of("p0", [*written, _file(".hoodie_partition_metadata", timedelta(days=9000))])
    assert expired(partition, days=days) == (min(ages) > timedelta(days=days))
    assert expired(partition, days=days, strategy=TtlStrategy.KEEP_BY_CREATION_TIME) == (max(ages) > timedelta(days))


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


# Deletions of partitions: which of them a catalog was not told of, and what waits until it was.

OPTIONS = CatalogSyncOptions(uri="thrift://hms:9083", database="sales", table="orders")


@pytest.fixture(params=[6, 9])
def trips(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    trips = made(tmp_path, version=request.param)
    (trips.home / MARK).parent.mkdir()
    trips.set_properties(kind="COPY_ON_WRITE")
    trips.write({"day=1": [base_file("a", "1")], "day=2": [base_file("b", "1")]})
    return trips


def _delete(trips: HudiTable, *partitions: str, run: str | None = None) -> str:
    replaced = {partition: ["a"] for partition in partitions}
    return trips.write({}, action="replacecommit", replaced=replaced, operation="DELETE_PARTITION", run=run)


def _tell(trips: HudiTable, *times: str, options: CatalogSyncOptions = OPTIONS) -> None:
    (trips.home / MARK).write_text(noted(options, times))


def _untold(trips: HudiTable) -> int:
    return seen(trips, Service.CATALOG_SYNC, options=OPTIONS).backlogs[Service.CATALOG_SYNC].commits


def test_each_deletion_counts_until_the_catalog_was_told_of_it(trips: HudiTable) -> None:
    """Our deletions and a writer's count. An overwriting of the same partition does not."""
    trips.write({"day=1": [base_file("c", "2")]}, action="replacecommit", replaced={"day=1": ["a"]})
    assert _untold(trips) == 0
    ours, theirs = _delete(trips, "day=1", run="r1"), _delete(trips, "day=2")
    assert _untold(trips) == 2
    _tell(trips, ours)
    assert _untold(trips) == 1
    _tell(trips, ours, theirs)
    assert _untold(trips) == 0


def test_every_deletion_is_read_with_its_partitions(trips: HudiTable) -> None:
    """The run that tells the catalog reads them, from both layouts. It reads no commit that only replaces files."""
    trips.write({"day=1": [base_file("c", "2")]}, action="replacecommit", replaced={"day=1": ["a"]})
    ours, theirs = _delete(trips, "day=1", "day=3", run="r1"), _delete(trips, "day=2")
    trips.begin_write("replacecommit")
    location, storage = str(trips.folder), LocalStorage()
    properties = read_table_properties(location, storage)

    found = read_deletions(whole_timeline(properties, storage), properties, storage)

    assert found == {ours: {"day=1", "day=3"}, theirs: {"day=2"}}
    torn = next(trips.timeline.glob(f"{theirs}*.replacecommit"))
    torn.write_bytes(b"{")
    with pytest.raises(TemporaryError, match=f"{theirs}.* cannot be read"):
        read_deletions(whole_timeline(properties, storage), properties, storage)


def test_what_another_place_was_told_counts_for_nothing(trips: HudiTable) -> None:
    """This holds for a table that was registered anew in another metastore or under another name. A damaged mark counts
    for nothing, too.
    """
    gone = _delete(trips, "day=1")
    _tell(trips, gone, options=OPTIONS.model_copy(update={"table": "trips"}))
    assert _untold(trips) == 1
    for damaged in ("", "\n", f"{place_in(OPTIONS)}\n{gone[:5]}"):
        (trips.home / MARK).write_text(damaged)
        assert _untold(trips) == 1


def test_a_deletion_is_not_archived_before_the_catalog_was_told_of_it(trips: HudiTable) -> None:
    """The catalog would never be told of a deletion that has left the timeline. Without the policy nothing waits."""
    gone = _delete(trips, "day=1")
    [held] = [one for one in seen(trips, Service.CATALOG_SYNC, options=OPTIONS).blockers if one.services]
    assert held.services == {Service.ARCHIVE}
    assert gone in held.reason
    assert not [one for one in seen(trips, Service.ARCHIVE).blockers if one.services]
    _tell(trips, gone)
    assert not [one for one in seen(trips, Service.CATALOG_SYNC, options=OPTIONS).blockers if one.services]


def test_a_view_with_an_untold_deletion_is_not_kept(trips: HudiTable) -> None:
    """No token shows that the catalog was told."""
    gone = _delete(trips, "day=1")
    trips.clock.advance(timedelta(minutes=1))
    other = look(trips, Service.CLEAN)
    assert other.vouched_for(token=other.token, now=trips.clock.now())
    first = look(trips, Service.CATALOG_SYNC, options=OPTIONS)
    assert not first.vouched_for(token=first.token, now=trips.clock.now())
    _tell(trips, gone)
    second = look(trips, Service.CATALOG_SYNC, options=OPTIONS, previous=first)
    assert second.vouched_for(token=second.token, now=trips.clock.now())


def test_a_deletion_after_an_archived_one_is_told_as_well(trips: HudiTable) -> None:
    """The count of the last run is not subtracted: as many may be new as were archived since."""
    _tell(trips, _delete(trips, "day=1"))
    new = _delete(trips, "day=2")
    view = seen(trips, Service.CATALOG_SYNC, options=OPTIONS)
    policy = Policy(trigger=TimeElapsed(at_least=timedelta(minutes=5)), options=OPTIONS)
    service_state = ServiceState(mode=Mode.ACT, idle=Idle(after="0 until ever", commits=1, at=view.observed_at))

    early, late = (
        decide(
            service=Service.CATALOG_SYNC,
            view=view,
            policy=policy,
            service_state=service_state,
            now=view.observed_at + after,
        )
        for after in (timedelta(minutes=4), timedelta(minutes=6))
    )

    assert isinstance(early, NotDue)
    assert isinstance(late, Due)
    assert new in view.notes[Service.CATALOG_SYNC][0]
