"""TTL deletes partitions with a time that is long ago, whole, and nothing that has come meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import (
    Failed,
    FailureKind,
    NothingToDo,
    Outcome,
    Plan,
    Succeeded,
    Yielded,
)
from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.exchanging.ending import drop, end_exchange
from lakewarden.executors.programs.directory.exchanging.record import held
from lakewarden.executors.programs.directory.exchanging.renames import entries
from lakewarden.executors.programs.directory.ttl import Ttl
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import TtlOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.storage import LocalStorage
from tests.support.directory.directories import age, put
from tests.support.directory.directory_runs import DirectoryRun, table_with

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
WRITTEN = datetime(2026, 3, 1, tzinfo=UTC)


def run(
    location: Path, *, before: Callable[[Step], None] = lambda _: None, now: datetime = NOW, **service: Any
) -> tuple[Outcome, list[Plan]]:
    """Carry out one run; return its outcome, and what it wanted to delete."""
    one = DirectoryRun(service=Service.TTL, location=location, options={"retain": "7d", **service}, before=before)
    return one.carried_out(Ttl(clock=ManualClock(now))), one.asked


def made(folder: Path, *days: int) -> Path:
    for day in days:
        for number in range(3):
            put(folder / f"dt=2026-03-{day:02d}" / f"part-{number}", WRITTEN)
        put(folder / f"dt=2026-03-{day:02d}" / "_SUCCESS", WRITTEN, b"")
    return folder


def left(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_partition_is_deleted_when_its_time_is_long_ago_and_counted_before(tmp_path: Path) -> None:
    """The plan tells the budget what is going to go."""
    made(tmp_path, 1, 2, 3, 4)
    size = sum(one.stat().st_size for one in tmp_path.glob("dt=2026-03-0[123]/*"))
    outcome, [plan] = run(tmp_path)
    assert (plan.partitions_to_delete, plan.files_to_delete, plan.files_in_table) == (3, 12, 12)
    assert plan.bytes_to_delete == size
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["partitions_deleted"], outcome.figures["files_deleted"]) == (3, 12)
    assert outcome.figures["bytes_deleted"] == size > 0
    assert left(tmp_path) == ["dt=2026-03-04"]
    assert isinstance(run(tmp_path)[0], NothingToDo)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dt=10-03-26", {}),
        ("dt=__DEFAULT_PARTITION__", {}),
        ("2026-03-01", {}),
        ("dt=0001-01-01", {}),
        ("year=26/month=3/day=1", {"timestamp_pattern": "$year-$month-$day"}),
    ],
)
def test_a_name_that_tells_no_time_never_expires(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """A year without four digits may be of this century, or a day, or a placeholder. Others go."""
    made(tmp_path, 1)
    put(tmp_path / name / "part-0", WRITTEN)
    put(tmp_path / "year=2020/month=3/day=1" / "part-0", WRITTEN)
    assert isinstance(run(tmp_path, **options)[0], Succeeded)
    assert (tmp_path / name / "part-0").exists()


def test_partitions_that_cannot_be_deleted_leave_the_place_of_a_run_to_others(tmp_path: Path) -> None:
    made(tmp_path, 1, 2)
    (tmp_path / "dt=2026-03-01" / "link").symlink_to(tmp_path / "dt=2026-03-02" / "part-0")
    age(tmp_path / "dt=2026-03-01", WRITTEN)
    assert isinstance(run(tmp_path, max_partitions=1)[0], Succeeded)
    assert left(tmp_path) == ["dt=2026-03-01"]


@pytest.mark.parametrize("name", [".part-9.inprogress.77", "_unknown"])
def test_a_partition_with_something_else_in_it_is_kept(tmp_path: Path, name: str) -> None:
    """A part in progress, or a hidden name of unknown meaning."""
    put(made(tmp_path, 1) / "dt=2026-03-01" / name, WRITTEN)
    assert isinstance(run(tmp_path)[0], NothingToDo)
    assert "dt=2026-03-01" in left(tmp_path)


@pytest.mark.parametrize("log", ["_spark_metadata", "dt=2026-03-01/_spark_metadata"])
def test_a_partition_in_the_list_of_a_streaming_sink_is_kept(tmp_path: Path, log: str) -> None:
    """Spark's readers go by that list, and would fail at each file that is gone."""
    made(tmp_path, 1)
    put(tmp_path / log / "0", WRITTEN)
    age(tmp_path / "dt=2026-03-01", WRITTEN)
    assert isinstance(run(tmp_path)[0], NothingToDo)
    assert "dt=2026-03-01" in left(tmp_path)
    table = table_with(tmp_path, Service.TTL, TtlOptions.model_validate({"retain": "7d"}))
    view = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view
    blocked = any(one.concerns(Service.TTL) for one in view.blockers)
    assert blocked is (log == "_spark_metadata")


def test_a_run_that_finds_nothing_rests_for_an_hour_at_most(tmp_path: Path) -> None:
    """Rows may come into a partition of long ago before the next one expires."""
    made(tmp_path, 9)
    outcome, _ = run(tmp_path)
    assert isinstance(outcome, NothingToDo)
    assert outcome.again == timedelta(hours=1)


def test_a_partition_that_is_written_to_now_is_kept_although_its_time_is_long_ago(tmp_path: Path) -> None:
    """Late data keeps it until it is inactive."""
    made(tmp_path, 1)
    put(tmp_path / "dt=2026-03-01" / "part-late", NOW - timedelta(seconds=30))
    assert isinstance(run(tmp_path)[0], NothingToDo)
    assert isinstance(run(tmp_path, now=NOW + timedelta(minutes=10))[0], Succeeded)


def test_what_comes_after_the_plan_keeps_its_partition(tmp_path: Path) -> None:
    """The approved deletion is of the files that were counted."""
    made(tmp_path, 1, 2)

    def late(step: Step) -> None:
        if step is Step.COMMIT:
            put(tmp_path / "dt=2026-03-01" / "part-late", WRITTEN)

    outcome, _ = run(tmp_path, before=late)
    assert isinstance(outcome, Succeeded)
    assert left(tmp_path) == ["dt=2026-03-01"]
    assert len(list((tmp_path / "dt=2026-03-01").iterdir())) == 5


def test_what_comes_in_the_last_moment_puts_the_partition_back(tmp_path: Path) -> None:
    """And if a writer has made the folder anew, old and new files are together."""
    place = made(tmp_path, 1) / "dt=2026-03-01"
    old = entries(str(place))
    home = tmp_path / "_lakewarden" / "x"
    home.parent.mkdir()

    def late(point: Point) -> None:
        if point is Point.PROPOSED:
            (place / "part-late").touch()
        if point is Point.EXCHANGED:
            place.mkdir()
            (place / "part-new").touch()

    assert not drop(str(tmp_path), str(home), "dt=2026-03-01", run="run", old=old, reach=late)
    assert {"part-0", "part-late", "part-new"} < {file.name for file in place.iterdir()}
    assert not home.exists()


@pytest.mark.parametrize("point", [Point.PROPOSED, Point.EXCHANGED, Point.PUBLISHED, Point.DELETING])
def test_a_kill_at_any_moment_leaves_the_partition_or_none(tmp_path: Path, point: Point) -> None:
    place = made(tmp_path, 1) / "dt=2026-03-01"
    home = tmp_path / "_lakewarden" / "x"
    home.parent.mkdir()

    def kill(at: Point) -> None:
        if at is point:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drop(str(tmp_path), str(home), "dt=2026-03-01", run="run", old=entries(str(place)), reach=kill)
    assert place.exists() == (point is Point.PROPOSED)
    assert end_exchange(str(tmp_path), str(home)) == (point is not Point.PROPOSED)
    assert not home.exists()
    assert len(list(place.iterdir()) if place.exists() else []) in (0, 4)


def test_a_partition_that_is_a_link_is_not_deleted(tmp_path: Path) -> None:
    """What it leads to may be of another table."""
    outside = made(tmp_path / "elsewhere", 1) / "dt=2026-03-01"
    table = made(tmp_path / "trips", 9)
    (table / "dt=2026-03-01").symlink_to(outside)
    assert isinstance(run(table)[0], NothingToDo)
    assert len(list(outside.iterdir())) == 4


@pytest.mark.long
def test_ttl_and_compaction_of_one_directory_do_not_meet(tmp_path: Path) -> None:
    made(tmp_path, 1)
    with held(str(tmp_path)):
        assert isinstance(run(tmp_path)[0], Yielded)


def test_without_a_time_to_keep_nothing_is_deleted(tmp_path: Path) -> None:
    made(tmp_path, 1)
    table = table_with(tmp_path, Service.TTL, TtlOptions())
    assert [found.key for found in DirectoryFormat().contradictions(table)] == ["services.ttl.options.retain"]
    outcome, _ = run(tmp_path, retain=None)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert left(tmp_path) == ["dt=2026-03-01"]


def test_the_view_tells_what_has_expired_and_when_the_next_does(tmp_path: Path) -> None:
    """Time alone makes a partition expire, so the table is looked at then."""
    made(tmp_path, 1, 4)
    age(tmp_path, WRITTEN)
    table = table_with(tmp_path, Service.TTL, TtlOptions.model_validate({"retain": "7d"}))
    observed = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW)
    backlog = observed.view.backlogs[Service.TTL]
    assert (backlog.commits, backlog.files) == (1, 3)
    assert backlog.since == WRITTEN + timedelta(days=7)
    run(tmp_path)
    rest = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view.at_rest[Service.TTL]
    assert rest.again_at == datetime(2026, 3, 11, tzinfo=UTC)
