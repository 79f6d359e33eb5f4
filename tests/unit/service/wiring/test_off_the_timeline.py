"""Plans that are not on the timeline, and instants that have left it: what can be known of them is known otherwise."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT, DaemonHarness
from tests.support.doubles.fake.options import FakeArchiveOptions

ARCHIVE = {Service.ARCHIVE: Policy(trigger=NumCommits(at_least=5), options=FakeArchiveOptions(instants_retained=2))}


def test_an_archive_succeeds_by_its_workers_word_and_waits_for_news(tmp_path: Path) -> None:
    """It leaves no instant behind, and is asked for again when enough has been written, not at every look."""
    harness = DaemonHarness(tmp_path, policies=ARCHIVE)
    harness.write(5)
    harness.until(lambda: harness.states(Service.ARCHIVE) == [RunState.SUCCEEDED])
    (run,) = harness.runs(Service.ARCHIVE)
    assert (run.outcome, run.instant) == ("completed", None)
    assert run.figures["instants_archived"] == 3
    assert len(harness.view().timeline.instants) == 2
    assert harness.lake.rows == 5

    harness.for_a_while(timedelta(minutes=5))
    assert len(harness.runs(Service.ARCHIVE)) == 1

    harness.write(5)
    harness.until(lambda: harness.states(Service.ARCHIVE) == [RunState.SUCCEEDED] * 2)


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_a_lost_archive_has_failed_and_is_asked_for_again(tmp_path: Path, step: Step) -> None:
    """Nobody can say how far it came; it is never looked for on the timeline, and not quarantined for its absence."""
    harness = DaemonHarness(tmp_path, policies=ARCHIVE)
    harness.write(5)
    run = harness.until_executing(step, Service.ARCHIVE)
    harness.pool.kill(run.id)
    harness.held_pool.release()

    harness.until(lambda: harness.states(Service.ARCHIVE) == [RunState.FAILED, RunState.SUCCEEDED])

    lost, _ = harness.runs(Service.ARCHIVE)
    assert lost.outcome is not None
    assert lost.outcome.startswith("the fake worker was killed; the timeline does not show that it completed")


def test_an_archive_that_a_killed_daemon_left_is_settled_without_the_timelines_word(tmp_path: Path) -> None:
    """Once its worker must be gone: nothing on the timeline will ever tell."""
    harness = DaemonHarness(tmp_path, policies=ARCHIVE)
    harness.write(5)
    harness.until_executing(Step.COMMIT, Service.ARCHIVE)

    harness.compose()
    harness.for_a_while(timedelta(seconds=5))
    assert harness.states(Service.ARCHIVE) == [RunState.UNKNOWN]

    harness.until(lambda: harness.states(Service.ARCHIVE) == [RunState.FAILED, RunState.SUCCEEDED])


def test_an_instant_that_was_archived_while_we_were_away_is_not_run_again(tmp_path: Path) -> None:
    """It was completed by the orphaned worker, and has left the timeline since: nobody is blamed for that."""
    harness = DaemonHarness(tmp_path, policies=COMPACT)
    harness.write(3)
    harness.until_executing(Step.COMMIT)
    harness.held_pool.release()
    harness.lake.write()
    harness.lake.archive(harness.lake.archivable(instants_retained=1))

    harness.compose()
    harness.until(lambda: harness.states() == [RunState.CANCELLED])
    harness.for_a_while(timedelta(minutes=1))

    (run,) = harness.runs()
    assert run.outcome == "its instant was completed or rolled back, and has been archived since"
    assert harness.lake.log_files == 1
