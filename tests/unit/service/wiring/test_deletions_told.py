"""A deletion that was begun is among its run's figures, however the run ends."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import DaemonHarness, prepare

CLEAN = {Service.CLEAN: Policy(trigger=NumCommits(at_least=1))}


def deleting(folder: Path) -> DaemonHarness:
    """Return a daemon whose clean has leave to delete two files, and is at it."""
    harness = DaemonHarness(folder, policies=CLEAN)
    for _ in range(2):
        prepare(harness.lake)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    return harness


def test_a_deletion_that_fails_half_way_tells_how_much_it_may_have_deleted(tmp_path: Path) -> None:
    """Its worker was killed, and nobody can count what has gone: what was going to go is in the row."""
    harness = deleting(tmp_path)
    [run] = harness.runs(Service.CLEAN)
    assert (run.state, run.figures) == (RunState.COMMITTING, {"files_to_delete": 2})
    harness.pool.kill(run.id)
    harness.turn()

    [ended] = harness.runs(Service.CLEAN)
    assert (ended.state, ended.figures) == (RunState.FAILED, {"files_to_delete": 2})


def test_a_deletion_whose_daemon_was_killed_tells_it_too(tmp_path: Path) -> None:
    """Its row has it from before it may begin, and whoever settles it leaves it there."""
    harness = deleting(tmp_path)
    [run] = harness.runs(Service.CLEAN)
    harness.pool.crash()
    harness.compose()
    harness.until(lambda: harness.states(Service.CLEAN)[0] is not RunState.COMMITTING)
    harness.until(harness.at_rest)

    ended = next(one for one in harness.runs(Service.CLEAN) if one.id == run.id)
    assert ended.state is not RunState.SUCCEEDED
    assert ended.figures == {"files_to_delete": 2}


def test_a_deletion_that_succeeds_tells_both(tmp_path: Path) -> None:
    """What was planned beside what was done."""
    harness = DaemonHarness(tmp_path, policies=CLEAN)
    for _ in range(2):
        prepare(harness.lake)
    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED])

    [run] = harness.runs(Service.CLEAN)
    assert run.figures["files_to_delete"] == 2
    assert "commit_seconds" in run.figures
