"""A table that is restored under the daemon: what we had completed is gone, and a person is told."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness


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
