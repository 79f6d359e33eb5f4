"""A rewrite of all files: one request of an operator, and as many runs as it takes."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.decision import Blocked, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.model.rows import RewriteRow
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness


def ask(
    harness: DaemonHarness, service: Service = Service.COMPACTION
) -> RunGiven | Blocked | NotDue | WouldRun | DoesNotApply:
    """Ask for a rewrite of all files of trips as the API does."""
    asked = harness.status.commands.request_run(TRIPS, service, by="ada", rewrite_all=True)
    return harness.answered(asked)


def under_way(harness: DaemonHarness) -> bool:
    """Whether the request is still there, as the API shows it."""
    status = harness.status.table(TRIPS)
    assert status is not None
    return Service.COMPACTION in status.rewrites


def test_a_rewrite_goes_on_until_a_plan_finds_no_file_that_is_left(tmp_path: Path) -> None:
    """The runs after the first begin by themselves. The last one plans nothing, and ends the request."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)

    given = ask(harness)
    assert under_way(harness)
    harness.until(lambda: not under_way(harness) and harness.at_rest())

    assert isinstance(given, RunGiven)
    assert given.run.rewrite_all == "1"
    outcomes = sorted((run.outcome or "", run.rewrite_all, run.requested_by) for run in harness.runs())
    assert outcomes == [
        ("completed", "1", "ada"),
        ("nothing to do: the format found nothing to plan", "1", "policy"),
    ]
    harness.write(1)
    harness.for_a_while()
    assert len(harness.runs()) == 2, "one commit is below the trigger, and no rewrite is under way"


def test_a_rewrite_goes_on_after_the_daemon_was_killed(tmp_path: Path) -> None:
    """The request is in the store before its first run. The next daemon carries it to its end."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)
    ask(harness)
    harness.until_executing(Step.EXECUTE)

    harness.compose()
    assert harness.lake.log_files == 1
    harness.until(lambda: not under_way(harness) and harness.at_rest())

    assert harness.lake.log_files == 0
    assert harness.runs()[-1].outcome == "nothing to do: the format found nothing to plan"
    assert {run.rewrite_all for run in harness.runs()} == {"1"}


def test_what_is_written_after_the_request_does_not_move_its_mark(tmp_path: Path) -> None:
    """Asking again is answered with the request that is under way."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)
    ask(harness)
    harness.until_executing(Step.COMMIT)
    harness.write(1)

    again = ask(harness)
    harness.held_pool.release()
    harness.until(lambda: not under_way(harness) and harness.at_rest())

    assert isinstance(again, RunGiven)
    assert not again.new
    assert {run.rewrite_all for run in harness.runs()} == {"1"}


def test_a_rewrite_that_is_asked_for_beside_a_run_begins_after_it(tmp_path: Path) -> None:
    """The run that is under way is the answer. It does what was due."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    due = harness.until_executing(Step.COMMIT)

    given = ask(harness)
    assert isinstance(given, RunGiven)
    assert (given.run.id, given.new, given.run.rewrite_all) == (due.id, False, None)
    harness.held_pool.release()
    harness.until(lambda: not under_way(harness) and harness.at_rest())

    assert [run.rewrite_all for run in harness.runs()] == [None, "3"]


def test_a_service_that_cannot_rewrite_all_is_named(tmp_path: Path) -> None:
    """The answer names the format. Nothing is kept."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.write(1)

    answer = ask(harness, Service.CLEAN)

    assert isinstance(answer, Blocked)
    assert answer.reason == "the clean of a table of format fake cannot rewrite all files"
    assert harness.store.rows(RewriteRow) == []


def test_a_block_is_not_skipped_and_keeps_no_request(tmp_path: Path) -> None:
    """A paused table gets no request that would begin by itself later."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)
    harness.answered(harness.status.commands.pause(TRIPS, reason="hands off"))

    assert ask(harness) == Blocked(reason="paused: hands off", remedy="resume it: `lakewarden tables resume trips`")
    assert harness.store.rows(RewriteRow) == []


def test_a_rewrite_that_is_withdrawn_begins_no_further_run(tmp_path: Path) -> None:
    """The run that is under way may finish."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)
    ask(harness)
    harness.until_executing(Step.COMMIT)

    assert harness.answered(harness.status.commands.end_rewrite(TRIPS, Service.COMPACTION))
    assert not harness.answered(harness.status.commands.end_rewrite(TRIPS, Service.COMPACTION))
    harness.held_pool.release()
    harness.until(harness.at_rest)
    harness.for_a_while()

    (run,) = harness.runs()
    assert (run.state, harness.lake.log_files) == (RunState.SUCCEEDED, 0)
