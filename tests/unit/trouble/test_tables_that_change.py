"""A table that is dropped, made again, restored or rolled back under us: its run ends, and what came after is
left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.formats.fake import FakeTable
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.model.run import RunState
from tests.support.hudi_table import HudiTable
from tests.support.road import TRIPS, Road

LONG = timedelta(minutes=30)


def drop(road: Road) -> None:
    shutil.rmtree(road.lake.folder)


def make_again(road: Road, *, rows: int = 0) -> None:
    """Make another table at the same place."""
    FakeTable.create(road.lake.folder, clock=road.clock)
    for _ in range(rows):
        road.lake.write()


@pytest.mark.parametrize("step", Step)
def test_a_table_that_is_dropped_in_the_middle_of_a_run_ends_it_and_nothing_else(tmp_path: Path, step: Step) -> None:
    """The row tells of it, the slot is free, and nothing is made where the table was."""
    road = Road(tmp_path, names=["trips", "other"])
    road.lakes[TRIPS].write()
    road.write(2, TRIPS)
    run = road.until_executing(step)
    shutil.rmtree(road.lakes[TRIPS].folder)
    road.held_pool.release()
    road.write(3, TableId("other"))
    road.until(lambda: road.states(table=TableId("other")) == [RunState.SUCCEEDED])
    road.for_a_while(LONG)

    (row,) = road.runs(table=TRIPS)
    assert row.id == run.id
    assert row.state in (RunState.CANCELLED, RunState.FAILED, RunState.UNKNOWN)
    assert road.pool.room().free == road.slots
    assert not road.lakes[TRIPS].folder.exists()


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_a_table_that_is_made_again_in_the_middle_of_a_run_is_not_touched_by_it(tmp_path: Path, step: Step) -> None:
    """The old run is settled and kept for the record; the new table is served when it is due itself, by a run of its
    own.
    """
    road = Road(tmp_path)
    road.write(3)
    old = road.until_executing(step)
    drop(road)
    make_again(road, rows=1)
    files = [path for path in road.lake.folder.rglob("*") if path.is_file()]
    road.held_pool.release()
    road.until(lambda: not road.store.active(), within=LONG)
    road.for_a_while()

    (row,) = road.runs()
    assert (row.id, row.identity) == (old.id, old.identity)
    assert row.state in (RunState.CANCELLED, RunState.FAILED)
    assert sorted(path for path in road.lake.folder.rglob("*") if path.is_file()) == sorted(files)

    road.write(2)
    road.until(lambda: RunState.SUCCEEDED in road.states())
    new = road.runs()[-1]
    assert new.identity != old.identity
    assert [run.id for run in road.runs()] == [old.id, new.id]


def test_a_plan_that_is_just_made_when_the_table_is_made_again_is_not_executed_by_its_run(tmp_path: Path) -> None:
    """The step had leave for the old table, and its plan lands on the new one; the next permit knows the difference."""
    road = Road(tmp_path)
    road.write(3)
    old = road.until_executing(Step.PLAN)
    drop(road)
    make_again(road, rows=1)
    road.held_pool.release()
    road.until(road.at_rest, within=LONG)

    first = road.runs()[0]
    assert (first.id, first.identity, first.state) == (old.id, old.identity, RunState.CANCELLED)
    assert first.outcome == "the table was dropped and made again"
    assert road.lake.rows == 1


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_plan_that_is_rolled_back_between_two_steps_is_not_completed_and_the_work_is_planned_again(
    tmp_path: Path, step: Step
) -> None:
    """A restore, or a person, has taken it off the timeline: the next permit is refused, and nobody is to blame."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(step)
    road.held_pool.release()
    (plan,) = road.view().timeline.pending(Service.COMPACTION)
    road.lake.withdraw(plan.time)
    road.until(lambda: RunState.SUCCEEDED in road.states(), within=LONG)

    first, *_, last = road.runs()
    assert first.state is RunState.CANCELLED
    assert f"instant {plan.time} is absent on the timeline" in str(first.outcome)
    assert [instant.time for instant in road.completed(Service.COMPACTION)] == [last.instant]
    assert road.lake.rows == 3


def test_a_plan_that_is_rolled_back_while_it_is_being_committed_is_a_persons_to_look_at(tmp_path: Path) -> None:
    """Whoever did that and we were at the table at once. Nothing is completed, and nothing more is tried."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.COMMIT)
    (plan,) = road.view().timeline.pending(Service.COMPACTION)
    road.lake.withdraw(plan.time)
    road.held_pool.release()
    road.for_a_while(LONG)

    assert road.states() == [RunState.FAILED]
    assert isinstance(road.decision(Service.COMPACTION), Blocked)
    assert road.completed(Service.COMPACTION) == []
    assert road.lake.log_files == 3


def drop_and_make_again(road: Road) -> None:
    drop(road)
    make_again(road)


@pytest.mark.parametrize("again", [drop, drop_and_make_again])
def test_a_table_that_goes_between_runs_takes_its_queued_run_with_it(
    tmp_path: Path, again: Callable[[Road], None]
) -> None:
    """A run that was asked for the old table never begins on what came after it."""
    road = Road(tmp_path, slots=0)
    road.write(3)
    road.until(lambda: road.states() == [RunState.QUEUED])
    again(road)
    road.slots = 4
    road.compose()
    road.for_a_while(LONG)
    assert RunState.SUCCEEDED not in road.states()
    assert not road.lake.folder.exists() or road.lake.file_versions <= 1


# -- Hudi: savepoints and restores


@pytest.mark.parametrize("action", ["restore", "savepoint"])
@pytest.mark.parametrize("state", ["requested", "inflight"])
@pytest.mark.parametrize("version", [6, 9])
def test_while_a_restore_or_a_savepoint_is_made_every_service_of_the_table_stands_still(
    tmp_path: Path, version: int, state: str, action: str
) -> None:
    """A restore takes commits back, and nobody knows yet which; it goes on by itself once the instant is completed."""
    lake = HudiTable(tmp_path / "t", version=version, clock=ManualClock(), zone=UTC)
    lake.commit_write(lake.begin_write())
    time = lake.next_time()
    lake.put(f"{time}.{action}.{state}")

    (found,) = view(lake).hindrances
    assert found.reason == f"{action} {time} is in flight"
    assert all(found.concerns(service) for service in Service)

    lake.complete(time, action)
    assert view(lake).hindrances == ()


def view(lake: HudiTable) -> TableView:
    table = Table(id=TableId("t"), format="hudi", location=str(lake.folder), options=HudiTableOptions(writers="none"))
    return HUDI.observe(table, LocalStorage(), None, now=lake.clock.now()).view
