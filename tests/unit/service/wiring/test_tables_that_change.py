"""A table that is dropped, made again, restored or rolled back under us: its run ends, and what came after is
left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness
from tests.support.doubles.fake import FakeTable
from tests.support.hudi.hudi_table import HudiTable

LONG = timedelta(minutes=30)


def drop(harness: DaemonHarness) -> None:
    shutil.rmtree(harness.lake.folder)


def make_again(harness: DaemonHarness, *, rows: int = 0) -> None:
    """Make another table at the same place."""
    FakeTable.create(harness.lake.folder, clock=harness.clock)
    for _ in range(rows):
        harness.lake.write()


@pytest.mark.parametrize("step", Step)
def test_a_table_that_is_dropped_in_the_middle_of_a_run_ends_it_and_nothing_else(tmp_path: Path, step: Step) -> None:
    """The row tells of it, the slot is free, and nothing is made where the table was."""
    harness = DaemonHarness(tmp_path, names=["trips", "other"])
    harness.lakes[TRIPS].write()
    harness.write(2, TRIPS)
    run = harness.until_executing(step)
    shutil.rmtree(harness.lakes[TRIPS].folder)
    harness.held_pool.release()
    harness.write(3, TableId("other"))
    harness.until(lambda: harness.states(table=TableId("other")) == [RunState.SUCCEEDED])
    harness.for_a_while(LONG)

    (row,) = harness.runs(table=TRIPS)
    assert row.id == run.id
    assert row.state in (RunState.CANCELLED, RunState.FAILED, RunState.UNKNOWN)
    assert harness.pool.capacity().free == harness.slots
    assert not harness.lakes[TRIPS].folder.exists()


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_a_table_that_is_made_again_in_the_middle_of_a_run_is_not_touched_by_it(tmp_path: Path, step: Step) -> None:
    """The old run is settled and kept for the record; the new table is served when it is due itself, by a run of its
    own.
    """
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    old = harness.until_executing(step)
    drop(harness)
    make_again(harness, rows=1)
    files = [path for path in harness.lake.folder.rglob("*") if path.is_file()]
    harness.held_pool.release()
    harness.until(lambda: not harness.store.active(), within=LONG)
    harness.for_a_while()

    (row,) = harness.runs()
    assert (row.id, row.identity) == (old.id, old.identity)
    assert row.state in (RunState.CANCELLED, RunState.FAILED)
    assert sorted(path for path in harness.lake.folder.rglob("*") if path.is_file()) == sorted(files)

    harness.write(2)
    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    new = harness.runs()[-1]
    assert new.identity != old.identity
    assert [run.id for run in harness.runs()] == [old.id, new.id]


def test_a_plan_that_is_just_made_when_the_table_is_made_again_is_not_executed_by_its_run(tmp_path: Path) -> None:
    """The step had leave for the old table, and its plan lands on the new one; the next permit knows the difference."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    old = harness.until_executing(Step.PLAN)
    drop(harness)
    make_again(harness, rows=1)
    harness.held_pool.release()
    harness.until(harness.at_rest, within=LONG)

    first = harness.runs()[0]
    assert (first.id, first.identity, first.state) == (old.id, old.identity, RunState.YIELDED)
    assert first.outcome == "the table was dropped and made again"
    assert harness.lake.rows == 1


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_plan_that_is_rolled_back_between_two_steps_is_not_completed_and_the_work_is_planned_again(
    tmp_path: Path, step: Step
) -> None:
    """A restore, or a person, has taken it off the timeline: the next permit is refused, and nobody is to blame."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(step)
    harness.held_pool.release()
    (plan,) = harness.view().timeline.pending(Service.COMPACTION)
    harness.lake.withdraw(plan.time)
    harness.until(lambda: RunState.SUCCEEDED in harness.states(), within=LONG)

    first, *_, last = harness.runs()
    assert first.state is RunState.YIELDED
    assert f"instant {plan.time} is absent on the timeline" in str(first.outcome)
    assert [instant.time for instant in harness.completed(Service.COMPACTION)] == [last.instant]
    assert harness.lake.rows == 3


def test_a_plan_that_is_rolled_back_while_it_is_being_committed_is_a_persons_to_look_at(tmp_path: Path) -> None:
    """Whoever did that and we were at the table at once. Nothing is completed, and nothing more is tried."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.COMMIT)
    (plan,) = harness.view().timeline.pending(Service.COMPACTION)
    harness.lake.withdraw(plan.time)
    harness.held_pool.release()
    harness.for_a_while(LONG)

    assert harness.states() == [RunState.FAILED]
    assert isinstance(harness.decision(Service.COMPACTION), Blocked)
    assert harness.completed(Service.COMPACTION) == []
    assert harness.lake.log_files == 3


def drop_and_make_again(harness: DaemonHarness) -> None:
    drop(harness)
    make_again(harness)


@pytest.mark.parametrize("again", [drop, drop_and_make_again])
def test_a_table_that_goes_between_runs_takes_its_queued_run_with_it(
    tmp_path: Path, again: Callable[[DaemonHarness], None]
) -> None:
    """A run that was asked for the old table never begins on what came after it."""
    harness = DaemonHarness(tmp_path, slots=0)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.QUEUED])
    again(harness)
    harness.slots = 4
    harness.compose()
    harness.for_a_while(LONG)
    assert RunState.SUCCEEDED not in harness.states()
    assert not harness.lake.folder.exists() or harness.lake.file_versions <= 1


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

    (found,) = view(lake).blockers
    assert found.reason == f"{action} {time} is in flight"
    assert all(found.concerns(service) for service in Service)

    lake.complete(time, action)
    assert view(lake).blockers == ()


def view(lake: HudiTable) -> TableView:
    table = Table(id=TableId("t"), format="hudi", location=str(lake.folder), options=HudiTableOptions(writers="none"))
    return HUDI.observe(table, LocalStorage(), None, now=lake.clock.now()).view


# A table that is restored under the daemon: what we had completed is gone, and a person is told.


def compacted(harness: DaemonHarness, copy: Path) -> str:
    """Let a table be compacted, a copy of it from before kept; return the instant."""
    harness.write(3)
    shutil.copytree(harness.lake.folder, copy)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED] and harness.at_rest())
    (instant,) = harness.completed(Service.COMPACTION)
    return instant.time


def restore(harness: DaemonHarness, copy: Path) -> None:
    """Put the old copy in the table's place."""
    shutil.rmtree(harness.lake.folder)
    shutil.copytree(copy, harness.lake.folder)


def is_told_of(harness: DaemonHarness, instant: str) -> bool:
    """Whether the compaction is in quarantine because this instant is gone."""
    found = [row for row in harness.store.decisions(TRIPS) if row.service is Service.COMPACTION]
    return bool(found) and found[0].reason.startswith(f"in quarantine: instant {instant} was completed")


def test_a_table_that_is_restored_under_us_is_put_in_quarantine(tmp_path: Path) -> None:
    """Nothing is done on what may be a mistake, however due it is, until a person resumes the table."""
    harness = DaemonHarness(tmp_path / "lake")
    instant = compacted(harness, tmp_path / "copy")

    restore(harness, tmp_path / "copy")
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: is_told_of(harness, instant))
    harness.for_a_while()
    assert harness.states() == [RunState.SUCCEEDED]

    harness.answered(harness.status.commands.resume(TRIPS))
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED, RunState.SUCCEEDED])


def test_a_look_while_the_run_was_under_way_hides_nothing(tmp_path: Path) -> None:
    """What it completes afterwards is what is looked for."""
    harness = DaemonHarness(tmp_path / "lake")
    harness.write(3)
    shutil.copytree(harness.lake.folder, tmp_path / "copy")
    run = harness.until_executing(Step.COMMIT)
    harness.commands.mark_dirty(TRIPS)
    harness.turn()
    harness.held_pool.release()
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])

    restore(harness, tmp_path / "copy")
    harness.commands.mark_dirty(TRIPS)

    assert run.instant is not None
    harness.until(lambda: is_told_of(harness, str(run.instant)))


def test_a_table_that_was_restored_while_no_daemon_ran_is_found_too(tmp_path: Path) -> None:
    """The store knows what we completed."""
    harness = DaemonHarness(tmp_path / "lake")
    instant = compacted(harness, tmp_path / "copy")
    harness.pool.close()

    restore(harness, tmp_path / "copy")
    harness.compose()

    harness.until(lambda: is_told_of(harness, instant))


def test_a_table_that_is_dropped_and_made_again_has_lost_nothing(tmp_path: Path) -> None:
    """It is another one."""
    harness = DaemonHarness(tmp_path / "lake")
    compacted(harness, tmp_path / "copy")

    shutil.rmtree(harness.lake.folder)
    harness.lakes[TRIPS] = type(harness.lake).create(harness.lake.folder, clock=harness.clock)
    harness.write(3)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED, RunState.SUCCEEDED])
