"""Somebody else completes what was ours to complete: a person hears of it, and the service stands still until then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakewarden.executors.contract import Step
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Scheduling
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.road import COMPACT, TRIPS, Road

BY_WRITERS = {
    Service.COMPACTION: Policy(
        trigger=NumCommits(at_least=100), schedule=Scheduling.WRITER, grace=timedelta(seconds=30)
    )
}


def is_blocked_by(road: Road, instant: str | None) -> bool:
    """Whether compaction is in quarantine because of the instant."""
    decision = road.decision(Service.COMPACTION)
    return isinstance(decision, Blocked) and f"instant {instant} was completed by another executor" in decision.reason


def completed_under_our_run(road: Road) -> str:
    """Let somebody complete the plan that a run of ours is executing, and return its instant."""
    (plan,) = road.view().timeline.pending(Service.COMPACTION)
    road.lake.start(plan.time)
    road.lake.complete(plan.time)
    road.held_pool._held.clear()
    road.held_pool.release()
    road.until(lambda: road.states() == [RunState.CANCELLED])
    road.turn()
    return plan.time


def test_a_plan_that_is_completed_under_our_run_was_completed_by_another(tmp_path: Path) -> None:
    """The run had no leave to commit yet: it is cancelled, not a success, and its service waits for a person."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.EXECUTE)

    time = completed_under_our_run(road)

    assert is_blocked_by(road, time)
    road.write(5)
    road.for_a_while(timedelta(minutes=5))
    assert len(road.runs()) == 1


def test_resuming_the_table_trusts_it_again(tmp_path: Path) -> None:
    """A person has found the other executor: the service goes on, and is not put back for the same instant."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    completed_under_our_run(road)

    road.answered(road.status.resume(TRIPS))
    road.write(3)

    road.until(lambda: road.states() == [RunState.CANCELLED, RunState.SUCCEEDED])


def test_a_writer_that_completes_the_plan_it_left_to_us_is_another_executor(tmp_path: Path) -> None:
    """We had taken its plan up after the grace time: the two would have damaged the table."""
    road = Road(tmp_path, policies=BY_WRITERS)
    road.write(3)
    theirs = road.lake.plan_compaction()
    road.until_executing(Step.EXECUTE)

    assert completed_under_our_run(road) == theirs
    assert is_blocked_by(road, theirs)


def test_a_plan_of_ours_that_nobody_of_us_was_at_is_watched(tmp_path: Path) -> None:
    """A run of ours left it pending and rests; when it is completed all the same, it was somebody else."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.PLAN)
    road.answered(road.status.pause(TRIPS, reason="migration"))
    road.held_pool.release()
    road.until(lambda: road.states() == [RunState.CANCELLED])
    road.for_a_while()
    (ours,) = road.view().timeline.pending(Service.COMPACTION)

    road.lake.start(ours.time)
    road.lake.complete(ours.time)
    road.inbox.mark_dirty(TRIPS)
    road.for_a_while()
    assert road.status._requests._standings._rows[TRIPS, Service.COMPACTION].quarantined is not None

    road.answered(road.status.resume(TRIPS))
    road.for_a_while()
    assert not is_blocked_by(road, ours.time)


def test_a_plan_that_a_writer_keeps_and_completes_is_its_own_business(tmp_path: Path) -> None:
    """Only plans that are ours to complete are watched."""
    road = Road(tmp_path, policies=BY_WRITERS)
    road.write(3)
    theirs = road.lake.plan_compaction()
    assert theirs is not None
    road.for_a_while(timedelta(seconds=10))
    road.lake.start(theirs)
    road.lake.complete(theirs)
    road.write(1)
    road.for_a_while()

    assert not is_blocked_by(road, theirs)


def test_what_our_own_runs_complete_is_never_taken_for_another_executors(tmp_path: Path) -> None:
    """Also where the run that planned died, and another one completed its plan."""
    road = Road(tmp_path, policies=COMPACT)
    for _ in range(3):
        road.write(3)
        road.pool.kill(road.until_executing(Step.EXECUTE).id)
        road.held_pool.release()
        road.until(lambda: road.lake.log_files == 0 and road.at_rest())
        road.for_a_while()

    assert road.states() == [RunState.FAILED, RunState.SUCCEEDED] * 3
