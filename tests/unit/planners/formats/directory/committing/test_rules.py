"""When a partition is committed: Flink's two rules, and never while it is written to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.committing import (
    PartitionState,
    Rules,
    due,
    judge,
    needs_of,
    partition_time,
    rules_of,
)
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.options import CommitTrigger, DirectoryTableOptions, PartitionCommitOptions
from lakewarden.planners.formats.directory.writers import usual_interval
from lakewarden.planners.model.instant import Service
from lakewarden.planners.settings import parse_duration

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = PartitionCommitOptions(
    trigger=CommitTrigger.PARTITION_TIME, delay=parse_duration("1h"), timestamp_pattern="$dt $hr:00:00"
)
TABLE = DirectoryTableOptions()


def data(at: datetime, *, marker: datetime | None = None, staged: int = 0, staging: int = 0) -> Folder:
    """Return a partition whose newest file is of this time."""
    moment = at.timestamp()
    return Folder(
        files=2,
        bytes=10,
        newest=moment,
        changed=moment,
        marker=None if marker is None else marker.timestamp(),
        staged=staged,
        staged_at=moment if staged else 0.0,
        staging=staging,
    )


def learned(
    folders: dict[str, Folder], table: DirectoryTableOptions, commit: PartitionCommitOptions, now: datetime
) -> Rules:
    """Return the rules with the rhythm of these folders."""
    return rules_of(folders, table, commit, now, usual=usual_interval(folders.values()))


def state_of(
    folders: dict[str, Folder], path: str, commit: PartitionCommitOptions, now: datetime = NOW
) -> PartitionState:
    return judge(path, folders[path], (), learned(folders, TABLE, commit, now), now).state


def of_hours(*hours: int, at: datetime = NOW - 5 * HOUR) -> dict[str, Folder]:
    return {f"dt=2026-03-01/hr={hour:02d}": data(at) for hour in hours}


def test_by_partition_time_the_watermark_must_be_later_by_more_than_the_delay() -> None:
    """The partition of 7 with a delay of an hour: 8 is not later than 8, and 9 is."""
    seven = "dt=2026-03-01/hr=07"
    assert state_of(of_hours(7), seven, HOURLY) is PartitionState.WAITING
    assert state_of(of_hours(7, 8), seven, HOURLY) is PartitionState.WAITING
    assert state_of(of_hours(7, 8, 9), seven, HOURLY) is PartitionState.DUE
    old = data(NOW - 5 * HOUR)  # one row with a time in the future would commit all partitions at once
    assert state_of(of_hours(7, 8) | {"dt=9999-01-01/hr=00": old}, seven, HOURLY) is PartitionState.WAITING
    no_time = "dt=__DEFAULT_PARTITION__/hr=00"  # a job of Flink's would fail at it
    folders = of_hours(7, 8, 9) | {no_time: old}
    assert state_of(folders, no_time, HOURLY) is PartitionState.WAITING
    assert state_of(folders, seven, HOURLY) is PartitionState.DUE


def test_by_process_time_the_delay_must_have_passed_since_the_newest_change() -> None:
    """`now > change + delay`, as Flink's `now > creation + delay`."""
    commit = PartitionCommitOptions(delay=parse_duration("1h"))
    path = "dt=2026-03-01"
    assert state_of({path: data(NOW - HOUR)}, path, commit) is PartitionState.WAITING
    assert state_of({path: data(NOW - HOUR - timedelta(milliseconds=1))}, path, commit) is PartitionState.DUE


def test_late_data_commits_again() -> None:
    """A marker that is older than the newest change does not count, nor one of the same moment."""
    path, late = "dt=2026-03-01", NOW - 2 * HOUR
    commit = PartitionCommitOptions()
    assert state_of({path: data(late, marker=late + HOUR)}, path, commit) is PartitionState.COMMITTED
    assert state_of({path: data(late, marker=late - HOUR)}, path, commit) is PartitionState.DUE
    assert state_of({path: data(late, marker=late)}, path, commit) is PartitionState.DUE


def test_a_rename_into_a_committed_partition_is_late_data() -> None:
    """The file keeps its old time. The folder shows that something came."""
    written, marker, renamed = NOW - 9 * HOUR, NOW - 5 * HOUR, NOW - 3 * HOUR
    folder = Folder(files=1, newest=written.timestamp(), changed=renamed.timestamp(), marker=marker.timestamp())
    own = Folder(files=1, newest=written.timestamp(), changed=marker.timestamp(), marker=marker.timestamp())
    commit = PartitionCommitOptions()
    assert state_of({"dt=1": folder}, "dt=1", commit) is PartitionState.DUE
    assert state_of({"dt=1": own}, "dt=1", commit) is PartitionState.COMMITTED


def test_only_partitions_with_data_are_committed() -> None:
    assert state_of({"": data(NOW - HOUR)}, "", PartitionCommitOptions()) is PartitionState.EMPTY
    assert state_of({"dt=1": Folder(changed=1.0)}, "dt=1", PartitionCommitOptions()) is PartitionState.EMPTY


_ages = st.integers(0, 100_000).map(lambda seconds: NOW - timedelta(seconds=seconds))
_folders = st.builds(
    data, _ages, marker=st.none() | _ages, staged=st.sampled_from([0, 0, 0, 1]), staging=st.sampled_from([0, 0, 0, 1])
)
_commits = st.builds(
    PartitionCommitOptions,
    trigger=st.sampled_from(CommitTrigger),
    delay=st.integers(0, 50_000).map(lambda seconds: timedelta(seconds=seconds)),
    timestamp_pattern=st.just("$dt $hr:00:00"),
)
_tables = st.builds(
    DirectoryTableOptions,
    quiet_for=st.integers(0, 10_000).map(lambda seconds: timedelta(seconds=seconds)),
    quiet_intervals=st.integers(0, 9),
)


@given(
    hours=st.dictionaries(st.integers(0, 11), _folders, min_size=1), root=st.sampled_from([0, 0, 1]), commit=_commits,
    table=_tables, usual=st.none() | st.floats(0, 5_000),
)  # fmt: skip
def test_no_partition_is_due_against_a_rule(
    hours: dict[int, Folder],
    root: int,
    commit: PartitionCommitOptions,
    table: DirectoryTableOptions,
    usual: float | None,
) -> None:
    """Each rule is stated here anew: nothing in progress, the rhythm, the delay and the watermark passed."""
    folders = {f"dt=2026-03-01/hr={hour:02d}": folder for hour, folder in hours.items()} | {"": Folder(staging=root)}
    rules = rules_of(folders, table, commit, NOW, usual=usual)
    chosen = due(folders, rules, NOW)
    newest = max(hours)
    for hour, folder in hours.items():
        quiet = NOW - datetime.fromtimestamp(folder.changed_at, UTC)
        rhythm = max(table.quiet_for, timedelta(seconds=(usual or 0.0) * table.quiet_intervals))
        waits_for_time = commit.trigger is CommitTrigger.PARTITION_TIME and (newest - hour) * HOUR <= commit.delay
        may = (
            not folder.staged and not folder.staging and not root and not waits_for_time
            and quiet > rhythm and quiet > commit.delay
            and (folder.marker is None or folder.changed_at >= folder.marker)
        )  # fmt: skip
        assert (f"dt=2026-03-01/hr={hour:02d}" in chosen) == may


@given(hours=st.dictionaries(st.integers(0, 11), _folders, min_size=1), commit=_commits, table=_tables)
def test_nothing_changes_before_the_moment_that_is_told(
    hours: dict[int, Folder], commit: PartitionCommitOptions, table: DirectoryTableOptions
) -> None:
    """A view is kept until then, so until then it must be right."""
    folders = {f"dt=2026-03-01/hr={hour:02d}": folder for hour, folder in hours.items()}
    rules = learned(folders, table, commit, NOW)
    needs = needs_of(folders, rules, NOW)
    before = NOW + timedelta(days=30) if needs.changes_at is None else needs.changes_at
    if before > NOW:
        assert due(folders, rules, before) == due(folders, rules, NOW)


def test_the_backlog_counts_partitions_and_what_waits_is_told() -> None:
    """A partition counts as a commit, so that the trigger `num_commits` asks for so many."""
    folders = of_hours(7, 8, 9) | {"dt=2026-03-01/hr=10": data(NOW, staged=1)}
    needs = needs_of(folders, learned(folders, TABLE, HOURLY, NOW), NOW)
    backlog = needs.backlogs[Service.PARTITION_COMMIT]
    assert (backlog.commits, backlog.files, backlog.exact) == (2, 4, True)
    assert needs.summary == "4 partitions (1 active, 1 waiting, 2 to be committed), 8 files, 40B"
    assert any("hr=10 is active: a part is in progress" in note for note in needs.notes[Service.PARTITION_COMMIT])
    rest = needs_of(of_hours(7), learned(of_hours(7), TABLE, HOURLY, NOW), NOW).at_rest[Service.PARTITION_COMMIT]
    assert "no partition that is later" in rest.reason


def test_an_old_part_in_progress_is_a_warning() -> None:
    """It holds its partition back for ever, so people must see it."""
    folders = {"dt=1": data(NOW - 48 * HOUR, staged=3)}
    (warning,) = needs_of(folders, learned(folders, TABLE, PartitionCommitOptions(), NOW), NOW).warnings
    assert "dt=1 has 3 parts in progress" in warning


# The time of a partition is what Flink's `DefaultPartTimeExtractor` reads.


def time_of(path: str, **options: Any) -> str | None:
    found = partition_time(path, PartitionCommitOptions.model_validate(options))
    return None if found is None else found.isoformat().replace("+00:00", "Z")


HOURLY_PATTERN = "$dt $hour:00:00"


@pytest.mark.parametrize(
    ("path", "options", "time"),
    [
        ("dt=2026-03-01/hour=07", {"timestamp_pattern": HOURLY_PATTERN}, "2026-03-01T07:00:00Z"),
        ("dt=2026-3-1/hour=7", {"timestamp_pattern": HOURLY_PATTERN}, "2026-03-01T07:00:00Z"),
        ("dt=2026-03-01/hour=24", {"timestamp_pattern": HOURLY_PATTERN}, "2026-03-02T00:00:00Z"),
        ("dt=2026-13-01/hour=0", {"timestamp_pattern": HOURLY_PATTERN}, "2027-01-01T00:00:00Z"),
        ("dt=2026-02-31/hour=0", {"timestamp_pattern": HOURLY_PATTERN}, "2026-03-03T00:00:00Z"),
        ("dt=2026-03-01/hour=07/region=eu", {"timestamp_pattern": HOURLY_PATTERN}, "2026-03-01T07:00:00Z"),
        ("dt=2026-03-01", {}, "2026-03-01T00:00:00Z"),
        ("dt=2026-03-01 10%3A30%3A00", {}, "2026-03-01T10:30:00Z"),
        ("dt=2026-03-01 10:30:00.25", {}, "2026-03-01T10:30:00.250000Z"),
        ("dt=2026-03-01 10:30", {}, None),
        ("dt=__HIVE_DEFAULT_PARTITION__", {}, None),
        ("dt=__DEFAULT_PARTITION__/hour=07", {"timestamp_pattern": HOURLY_PATTERN}, None),
        ("2026/03/01", {}, None),
        ("dt=2026-03-01", {"timestamp_pattern": HOURLY_PATTERN}, None),
        ("d=1/dt=2026-03-01", {"timestamp_pattern": "$dt"}, None),  # Flink replaces $d in $dt, too
        ("day=20260301/hour=07", {"timestamp_pattern": "$day$hour", "timestamp_formatter": "yyyyMMddHH"},
         "2026-03-01T07:00:00Z"),
        ("day=20260301", {"timestamp_formatter": "yyyyMMdd"}, "2026-03-01T00:00:00Z"),
        ("day=20260231", {"timestamp_formatter": "yyyyMMdd"}, None),
        ("y=2026/m=3/d=1/h=7", {"timestamp_pattern": "$y-$m-$d $h:00:00"}, "2026-03-01T07:00:00Z"),
        ("y=2026/m=March", {"timestamp_pattern": "$y-$m-01"}, None),
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
    """By the pattern, by columns of numbers and by the formatter alike."""
    hour = moment.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
    path = f"dt={hour:%Y-%m-%d}/hour={hour:%H}"
    by_columns = f"y={hour.year}/m={hour.month}/d={hour.day}/h={hour.hour}"
    compact = f"t={hour:%Y%m%d%H}"
    read = [
        partition_time(path, PartitionCommitOptions(timestamp_pattern=HOURLY_PATTERN)),
        partition_time(by_columns, PartitionCommitOptions(timestamp_pattern="$y-$m-$d $h:00:00")),
        partition_time(compact, PartitionCommitOptions(timestamp_formatter="yyyyMMddHH")),
    ]
    assert read == [hour] * 3


@given(path=st.text(max_size=60), pattern=st.sampled_from([None, HOURLY_PATTERN, "$dt", "x"]))
def test_no_name_of_a_folder_is_an_error(path: str, pattern: str | None) -> None:
    partition_time(path, PartitionCommitOptions(timestamp_pattern=pattern))
