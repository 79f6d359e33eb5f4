"""The wall clock jumps an hour forward or back. Nothing runs twice, nothing is lost, and nothing is delayed for
longer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, time, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.deletion.expiry import Term, partition_of
from lakewarden.planners.formats.hudi.options.service_options import TtlStrategy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import CautiousClock, ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.window import Window
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits, TimeElapsed
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, DaemonHarness, prepare
from tests.support.hudi.hudi_table import HudiTable

HOUR = timedelta(hours=1)
JUMPS = [HOUR, -HOUR]
SOON = timedelta(minutes=2)


def within(harness: DaemonHarness, duration: timedelta, happens: Callable[[], bool]) -> None:
    """Turn the loop until a condition is true. Fail if it is not true within a time that no jump changes."""
    latest = harness.clock.monotonic() + duration.total_seconds()
    while not happens():
        assert harness.clock.monotonic() < latest, f"not within {duration}: {harness.recorded.lines}"
        harness.turn()


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("step", Step)
def test_a_jump_in_any_step_changes_nothing_about_the_run(tmp_path: Path, step: Step, jump: timedelta) -> None:
    """The run ends at once, exactly once, and with the same result. No lease is lost, and the next run starts as soon
    as before.
    """
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(step)
    harness.clock.jump(jump)
    harness.for_a_while(timedelta(seconds=20))
    harness.held_pool.release()
    within(harness, SOON, lambda: harness.states() == [RunState.SUCCEEDED])
    assert [ended.epoch for ended in harness.runs()] == [run.epoch]

    harness.write(3)
    within(harness, SOON, lambda: harness.states() == [RunState.SUCCEEDED] * 2)
    assert len(harness.completed(Service.COMPACTION)) == 2
    assert harness.lake.rows == 6


@pytest.mark.parametrize("jump", JUMPS)
def test_a_daemon_restarted_over_a_jump_finishes_what_was_left_once(tmp_path: Path, jump: timedelta) -> None:
    """The old daemon is gone, its run is not finished, and the clock is another. The plan is completed once."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    harness.clock.jump(jump)
    harness.compose()
    within(harness, HOUR + 5 * SOON, lambda: harness.lake.log_files == 0 and harness.at_rest())
    assert len(harness.completed(Service.COMPACTION)) == 1
    assert [run.state for run in harness.runs()].count(RunState.SUCCEEDED) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_table_is_idle_delays_no_work(tmp_path: Path, jump: timedelta) -> None:
    """Appointments follow the clock that does not jump. A write is observed as soon as before."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.for_a_while()
    harness.clock.jump(jump)
    prepare(harness.lake)
    within(harness, SOON, lambda: harness.lake.log_files == 0 and harness.lake.file_versions < 3)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_rest_after_a_failure_ends(tmp_path: Path, jump: timedelta) -> None:
    """After a jump back, the delay lasts at most an hour longer. After a jump forward it ends early, which costs only
    one attempt.
    """
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    harness.pool.kill(run.id)
    within(harness, SOON, lambda: harness.states()[:1] == [RunState.FAILED])
    harness.clock.jump(jump)
    harness.held_pool.release()
    longest = SOON if jump > timedelta(0) else HOUR + SOON
    within(harness, longest, lambda: RunState.SUCCEEDED in harness.states())


def test_what_a_jump_forward_lets_into_its_window_begins_no_later_than_without_the_jump(tmp_path: Path) -> None:
    """The window opens in half an hour. The jump opens it earlier, and delays nothing."""
    harness = DaemonHarness(tmp_path, policies=compact_from(time(0, 30), time(4)))
    harness.write(3)
    harness.for_a_while()
    assert harness.runs() == []
    harness.clock.jump(HOUR)
    within(harness, HOUR / 2 + SOON, lambda: harness.states() == [RunState.SUCCEEDED])


def test_after_a_jump_back_nothing_begins_before_its_window_opens_again(tmp_path: Path) -> None:
    """Windows are hours of the wall clock, so its current time counts."""
    harness = DaemonHarness(tmp_path, policies=compact_from(time(23, 30), time(4)))
    harness.for_a_while()
    harness.clock.jump(-HOUR)
    harness.write(3)
    harness.for_a_while(timedelta(minutes=20))
    assert harness.runs() == []
    within(harness, timedelta(minutes=10) + SOON, lambda: harness.states() == [RunState.SUCCEEDED])


def compact_from(start: time, end: time) -> dict[Service, Policy]:
    return {Service.COMPACTION: Policy(trigger=NumCommits(at_least=3), window=Window(start=start, end=end))}


@pytest.mark.parametrize("jump", JUMPS)
def test_an_elapsed_time_is_late_by_the_jump_at_most_and_fires_once(tmp_path: Path, jump: timedelta) -> None:
    """The time counts from a commit's own time. After a jump back by an hour, it is due an hour later."""
    harness = DaemonHarness(tmp_path, policies={Service.COMPACTION: Policy(trigger=TimeElapsed(at_least=HOUR / 2))})
    harness.write(3)
    harness.for_a_while()
    harness.clock.jump(jump)
    within(harness, HOUR / 2 + max(-jump, timedelta(0)) + SOON, lambda: harness.states() == [RunState.SUCCEEDED])
    harness.for_a_while()
    assert len(harness.completed(Service.COMPACTION)) == 1


def test_an_hour_ahead_a_partition_goes_an_hour_early_at_most() -> None:
    """Ages are whole days, counted from the files' own times. A wrong clock can take at most an hour of them."""
    clock = ManualClock()
    written = FileEntry(name="a.parquet", size=1, modified=clock.now())
    partition = partition_of("p0", [written])
    clock.advance(timedelta(hours=22, minutes=59))
    clock.jump(HOUR)
    assert not Term(strategy=TtlStrategy.KEEP_BY_TIME, days=1).has_expired(partition, now=clock.now())


# -- the clock that is not believed at once


def test_after_a_jump_forward_a_living_writers_heartbeat_is_no_older_than_before(tmp_path: Path) -> None:
    """The last beat looks an hour old until the next one, within a minute. The jump is believed only after that."""
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
    """What NTP corrects all the time is no jump. A jump that is taken back is forgotten."""
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
