"""A table that is restored under the daemon: what we had completed is gone, and a person is told."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState
from tests.support.road import TRIPS, Road


def compacted(road: Road, copy: Path) -> str:
    """Let a table be compacted, a copy of it from before kept; return the instant."""
    road.write(3)
    shutil.copytree(road.lake.folder, copy)
    road.until(lambda: road.states() == [RunState.SUCCEEDED] and road.at_rest())
    (instant,) = road.completed(Service.COMPACTION)
    return instant.time


def restore(road: Road, copy: Path) -> None:
    """Put the old copy in the table's place."""
    shutil.rmtree(road.lake.folder)
    shutil.copytree(copy, road.lake.folder)


def is_told_of(road: Road, instant: str) -> bool:
    """Whether the compaction is in quarantine because this instant is gone."""
    found = [row for row in road.store.decisions(TRIPS) if row.service is Service.COMPACTION]
    return bool(found) and found[0].reason.startswith(f"in quarantine: instant {instant} was completed")


def test_a_table_that_is_restored_under_us_is_put_in_quarantine(tmp_path: Path) -> None:
    """Nothing is done on what may be a mistake, however due it is, until a person resumes the table."""
    road = Road(tmp_path / "lake")
    instant = compacted(road, tmp_path / "copy")

    restore(road, tmp_path / "copy")
    road.inbox.mark_dirty(TRIPS)
    road.until(lambda: is_told_of(road, instant))
    road.for_a_while()
    assert road.states() == [RunState.SUCCEEDED]

    road.answered(road.status.resume(TRIPS))
    road.until(lambda: road.states() == [RunState.SUCCEEDED, RunState.SUCCEEDED])


def test_a_look_while_the_run_was_under_way_hides_nothing(tmp_path: Path) -> None:
    """What it completes afterwards is what is looked for."""
    road = Road(tmp_path / "lake")
    road.write(3)
    shutil.copytree(road.lake.folder, tmp_path / "copy")
    run = road.until_executing(Step.COMMIT)
    road.inbox.mark_dirty(TRIPS)
    road.turn()
    road.held_pool.release()
    road.until(lambda: road.states() == [RunState.SUCCEEDED])

    restore(road, tmp_path / "copy")
    road.inbox.mark_dirty(TRIPS)

    assert run.instant is not None
    road.until(lambda: is_told_of(road, str(run.instant)))


def test_a_table_that_was_restored_while_no_daemon_ran_is_found_too(tmp_path: Path) -> None:
    """The store knows what we completed."""
    road = Road(tmp_path / "lake")
    instant = compacted(road, tmp_path / "copy")
    road.pool.close()

    restore(road, tmp_path / "copy")
    road.compose()

    road.until(lambda: is_told_of(road, instant))


def test_a_table_that_is_dropped_and_made_again_has_lost_nothing(tmp_path: Path) -> None:
    """It is another one."""
    road = Road(tmp_path / "lake")
    compacted(road, tmp_path / "copy")

    shutil.rmtree(road.lake.folder)
    road.lakes[TRIPS] = type(road.lake).create(road.lake.folder, clock=road.clock)
    road.write(3)

    road.until(lambda: road.states() == [RunState.SUCCEEDED, RunState.SUCCEEDED])
