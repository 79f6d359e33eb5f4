"""The wall clock jumps an hour, forward or back: nothing runs twice, nothing is lost, nothing stalls for longer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, time, timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.deletion.expiry import Term, partition_of
from lakewarden.planners.formats.hudi.options.service_options import TtlStrategy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import CautiousClock, ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.window import Window
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits, TimeElapsed
from lakewarden.service.model.run import RunState
from tests.support.hudi_table import HudiTable
from tests.support.road import COMPACT_AND_CLEAN, Road, prepare

HOUR = timedelta(hours=1)
JUMPS = [HOUR, -HOUR]
SOON = timedelta(minutes=2)


def within(road: Road, duration: timedelta, happens: Callable[[], bool]) -> None:
    """Turn until something has happened, and fail if it does not within a time that no jump changes."""
    latest = road.clock.monotonic() + duration.total_seconds()
    while not happens():
        assert road.clock.monotonic() < latest, f"not within {duration}: {road.diary.lines}"
        road.turn()


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("step", Step)
def test_a_jump_in_any_step_changes_nothing_about_the_run(tmp_path: Path, step: Step, jump: timedelta) -> None:
    """It ends as it would have, at once, and once; no lease is lost, and the next run is as prompt as ever."""
    road = Road(tmp_path)
    road.write(3)
    run = road.until_executing(step)
    road.clock.jump(jump)
    road.for_a_while(timedelta(seconds=20))
    road.held_pool.release()
    within(road, SOON, lambda: road.states() == [RunState.SUCCEEDED])
    assert [ended.epoch for ended in road.runs()] == [run.epoch]

    road.write(3)
    within(road, SOON, lambda: road.states() == [RunState.SUCCEEDED] * 2)
    assert len(road.completed(Service.COMPACTION)) == 2
    assert road.lake.rows == 6


@pytest.mark.parametrize("jump", JUMPS)
def test_a_daemon_restarted_over_a_jump_finishes_what_was_left_once(tmp_path: Path, jump: timedelta) -> None:
    """Its predecessor is gone, its run half-way, and the clock another: the plan is completed once."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    road.clock.jump(jump)
    road.compose()
    within(road, HOUR + 5 * SOON, lambda: road.lake.log_files == 0 and road.at_rest())
    assert len(road.completed(Service.COMPACTION)) == 1
    assert [run.state for run in road.runs()].count(RunState.SUCCEEDED) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_table_is_idle_delays_no_work(tmp_path: Path, jump: timedelta) -> None:
    """Looks are kept by the clock that does not jump, and a write is seen as soon as ever."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN)
    road.for_a_while()
    road.clock.jump(jump)
    prepare(road.lake)
    within(road, SOON, lambda: road.lake.log_files == 0 and road.lake.file_versions < 3)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_rest_after_a_failure_ends(tmp_path: Path, jump: timedelta) -> None:
    """Back by an hour, it lasts that hour longer at most; forward, it ends early, which only costs a try."""
    road = Road(tmp_path)
    road.write(3)
    run = road.until_executing(Step.EXECUTE)
    road.pool.kill(run.id)
    within(road, SOON, lambda: road.states()[:1] == [RunState.FAILED])
    road.clock.jump(jump)
    road.held_pool.release()
    longest = SOON if jump > timedelta(0) else HOUR + SOON
    within(road, longest, lambda: RunState.SUCCEEDED in road.states())


def test_what_a_jump_forward_lets_into_its_window_begins_no_later_than_without_the_jump(tmp_path: Path) -> None:
    """The window opens in half an hour; the jump brings that forward, and delays nothing."""
    road = Road(tmp_path, policies=compact_from(time(0, 30), time(4)))
    road.write(3)
    road.for_a_while()
    assert road.runs() == []
    road.clock.jump(HOUR)
    within(road, HOUR / 2 + SOON, lambda: road.states() == [RunState.SUCCEEDED])


def test_after_a_jump_back_nothing_begins_before_its_window_opens_again(tmp_path: Path) -> None:
    """Windows are people's hours: what counts is what the clock says now."""
    road = Road(tmp_path, policies=compact_from(time(23, 30), time(4)))
    road.for_a_while()
    road.clock.jump(-HOUR)
    road.write(3)
    road.for_a_while(timedelta(minutes=20))
    assert road.runs() == []
    within(road, timedelta(minutes=10) + SOON, lambda: road.states() == [RunState.SUCCEEDED])


def compact_from(start: time, end: time) -> dict[Service, Policy]:
    return {Service.COMPACTION: Policy(trigger=NumCommits(at_least=3), window=Window(start=start, end=end))}


@pytest.mark.parametrize("jump", JUMPS)
def test_an_elapsed_time_is_late_by_the_jump_at_most_and_fires_once(tmp_path: Path, jump: timedelta) -> None:
    """It is counted from a commit's own time: back by an hour it is due an hour later."""
    road = Road(tmp_path, policies={Service.COMPACTION: Policy(trigger=TimeElapsed(at_least=HOUR / 2))})
    road.write(3)
    road.for_a_while()
    road.clock.jump(jump)
    within(road, HOUR / 2 + max(-jump, timedelta(0)) + SOON, lambda: road.states() == [RunState.SUCCEEDED])
    road.for_a_while()
    assert len(road.completed(Service.COMPACTION)) == 1


def test_an_hour_ahead_a_partition_goes_an_hour_early_at_most() -> None:
    """Ages are whole days, counted from the files' own times, so that an hour is all that a wrong clock can take."""
    clock = ManualClock()
    written = FileEntry(name="a.parquet", size=1, modified=clock.now())
    partition = partition_of("p0", [written])
    clock.advance(timedelta(hours=22, minutes=59))
    clock.jump(HOUR)
    assert not Term(strategy=TtlStrategy.KEEP_BY_TIME, days=1).has_expired(partition, now=clock.now())


# -- the clock that is not believed at once


def test_after_a_jump_forward_a_living_writers_heartbeat_is_no_older_than_before(tmp_path: Path) -> None:
    """Its last beat looks an hour old until it beats again, within a minute; only then is the jump believed."""
    wall = ManualClock()
    clock = CautiousClock(wall)
    lake = HudiTable(tmp_path / "t", version=9, clock=wall, zone=UTC)
    write = lake.begin_write()
    table = Table(id=TableId("t"), format="hudi", location=str(lake.folder), options=HudiTableOptions(writers="none"))

    def alive() -> bool:
        (found,) = HUDI.observe(table, LocalStorage(), None, now=clock.now()).view.writers.in_flight
        return found.may_be_alive(clock.now())

    assert alive()
    wall.jump(HOUR)
    for _ in range(10):
        assert alive()
        wall.advance(timedelta(seconds=60))
        lake.beat(write)
    wall.advance(timedelta(minutes=4))
    assert not alive()


def test_a_jump_back_is_believed_at_once_and_one_forward_when_it_has_stood_for_a_while() -> None:
    """What NTP corrects all the time is no jump, and one that is taken back is forgotten."""
    wall = ManualClock()
    clock = CautiousClock(wall, doubt=timedelta(minutes=3))
    wall.jump(timedelta(seconds=2))
    assert clock.now() == wall.now()
    wall.jump(HOUR)
    assert clock.now() == wall.now() - HOUR
    wall.advance(timedelta(minutes=2, seconds=59))
    assert clock.now() == wall.now() - HOUR
    wall.jump(-HOUR)
    assert clock.now() == wall.now()
    wall.jump(HOUR)
    assert clock.now() == wall.now() - HOUR
    wall.advance(timedelta(minutes=3))
    assert clock.now() == wall.now()
    wall.jump(-HOUR)
    assert clock.now() == wall.now()
    assert clock.monotonic() == wall.monotonic()
