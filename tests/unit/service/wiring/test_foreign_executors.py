"""Somebody else completes what was ours to complete: a person hears of it, and the service stands still until then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Scheduling
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT, TRIPS, DaemonHarness

BY_WRITERS = {
    Service.COMPACTION: Policy(
        trigger=NumCommits(at_least=100), schedule=Scheduling.WRITER, grace=timedelta(seconds=30)
    )
}


def is_blocked_by(harness: DaemonHarness, instant: str | None) -> bool:
    """Whether compaction is in quarantine because of the instant."""
    decision = harness.decision(Service.COMPACTION)
    return isinstance(decision, Blocked) and f"instant {instant} was completed by another executor" in decision.reason


def completed_under_our_run(harness: DaemonHarness) -> str:
    """Let somebody complete the plan that a run of ours is executing, and return its instant."""
    (plan,) = harness.view().timeline.pending(Service.COMPACTION)
    harness.lake.start(plan.time)
    harness.lake.complete(plan.time)
    harness.held_pool._held.clear()
    harness.held_pool.release()
    harness.until(lambda: harness.states() == [RunState.CANCELLED])
    harness.turn()
    return plan.time


def test_a_plan_that_is_completed_under_our_run_was_completed_by_another(tmp_path: Path) -> None:
    """The run had no leave to commit yet: it is cancelled, not a success, and its service waits for a person."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)

    time = completed_under_our_run(harness)

    assert is_blocked_by(harness, time)
    harness.write(5)
    harness.for_a_while(timedelta(minutes=5))
    assert len(harness.runs()) == 1


def test_resuming_the_table_trusts_it_again(tmp_path: Path) -> None:
    """A person has found the other executor: the service goes on, and is not put back for the same instant."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    completed_under_our_run(harness)

    harness.answered(harness.status.commands.resume(TRIPS))
    harness.write(3)

    harness.until(lambda: harness.states() == [RunState.CANCELLED, RunState.SUCCEEDED])


def test_a_writer_that_completes_the_plan_it_left_to_us_is_another_executor(tmp_path: Path) -> None:
    """We had taken its plan up after the grace time: the two would have damaged the table."""
    harness = DaemonHarness(tmp_path, policies=BY_WRITERS)
    harness.write(3)
    theirs = harness.lake.plan_compaction()
    harness.until_executing(Step.EXECUTE)

    assert completed_under_our_run(harness) == theirs
    assert is_blocked_by(harness, theirs)


def test_a_plan_of_ours_that_nobody_of_us_was_at_is_watched(tmp_path: Path) -> None:
    """A run of ours left it pending and rests; when it is completed all the same, it was somebody else."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.PLAN)
    harness.answered(harness.status.commands.pause(TRIPS, reason="migration"))
    harness.held_pool.release()
    harness.until(lambda: harness.states() == [RunState.YIELDED])
    harness.for_a_while()
    (ours,) = harness.view().timeline.pending(Service.COMPACTION)

    harness.lake.start(ours.time)
    harness.lake.complete(ours.time)
    harness.commands.mark_dirty(TRIPS)
    harness.for_a_while()
    assert harness.status._statuses._requests._service_states.quarantined(TRIPS) is not None

    harness.answered(harness.status.commands.resume(TRIPS))
    harness.for_a_while()
    assert not is_blocked_by(harness, ours.time)


def test_a_plan_that_a_writer_keeps_and_completes_is_its_own_business(tmp_path: Path) -> None:
    """Only plans that are ours to complete are watched."""
    harness = DaemonHarness(tmp_path, policies=BY_WRITERS)
    harness.write(3)
    theirs = harness.lake.plan_compaction()
    assert theirs is not None
    harness.for_a_while(timedelta(seconds=10))
    harness.lake.start(theirs)
    harness.lake.complete(theirs)
    harness.write(1)
    harness.for_a_while()

    assert not is_blocked_by(harness, theirs)


def test_what_our_own_runs_complete_is_never_taken_for_another_executors(tmp_path: Path) -> None:
    """Also where the run that planned died, and another one completed its plan."""
    harness = DaemonHarness(tmp_path, policies=COMPACT)
    for _ in range(3):
        harness.write(3)
        harness.pool.kill(harness.until_executing(Step.EXECUTE).id)
        harness.held_pool.release()
        harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())
        harness.for_a_while()

    assert harness.states() == [RunState.FAILED, RunState.SUCCEEDED] * 3
