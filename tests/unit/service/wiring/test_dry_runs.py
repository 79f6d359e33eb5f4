"""Dry runs: what a request for a run would meet, before it is sent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakewarden.planners.model.decision import Blocked, Due, NotDue, WouldRun
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode
from lakewarden.service.control.commands import DryRun
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness


def dry_run(harness: DaemonHarness) -> DryRun:
    """Ask for a dry run of a compaction, and return the answer."""
    asked = harness.status.commands.dry_run(TRIPS, Service.COMPACTION)
    harness.until(asked.done)
    return asked.result(timeout=0)


@pytest.mark.parametrize("commits", [1, 2])
def test_it_says_what_the_request_then_does_and_leaves_no_trace(tmp_path: Path, commits: int) -> None:
    """The trigger of three commits is skipped. No run and no act is stored, and nothing is planned. What was written
    since the last observation is seen.
    """
    harness = DaemonHarness(tmp_path)
    harness.turn()
    for _ in range(commits):
        harness.lake.write()

    found = dry_run(harness)

    assert (type(found.decision), found.active) == (Due, None)
    assert found.view.backlogs[Service.COMPACTION].commits == commits
    assert (harness.runs(), list(harness.status.acts())) == ([], [])
    assert not harness.view().timeline.pending(Service.COMPACTION)
    harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="ada")
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


def test_a_block_is_the_answer(tmp_path: Path) -> None:
    """The request would be refused, with the same reason."""
    harness = DaemonHarness(tmp_path)
    harness.write(2)
    harness.status.commands.pause(TRIPS, reason="a migration")
    found = dry_run(harness)

    assert isinstance(found.decision, Blocked)
    assert "a migration" in found.decision.reason
    asked = harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="ada")
    harness.until(asked.done)
    assert asked.result(timeout=0) == found.decision


def test_a_mode_that_holds_it_back_is_the_answer(tmp_path: Path) -> None:
    """It would run, if the mode let it."""
    harness = DaemonHarness(tmp_path, mode=Mode.PLAN)
    harness.write(1)
    assert isinstance(dry_run(harness).decision, WouldRun)


def test_a_run_that_is_active_is_named(tmp_path: Path) -> None:
    """The request would return it. It goes on."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)

    found = dry_run(harness)

    assert found.active is not None
    assert (found.active.id, type(found.decision)) == (run.id, NotDue)
    assert harness.states() == [RunState.RUNNING]


def test_a_table_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Nothing is said by what is old."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
    shutil.rmtree(harness.lake.folder)
    asked = harness.status.commands.dry_run(TRIPS, Service.COMPACTION)
    harness.until(asked.done)

    with pytest.raises(LakewardenError):
        asked.result(timeout=0)
