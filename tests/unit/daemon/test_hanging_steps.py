"""A step that hangs, at a lock that is never released or a storage that does not answer, is ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Step
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState
from lakewarden.service.state.backoff import SMALLER_FOR
from tests.support.road import COMPACT_AND_CLEAN, TRIPS, HoldingPool, Road, RoadClock, prepare


@pytest.mark.parametrize("step", Step)
def test_a_step_that_does_not_end_is_cancelled_and_counts_as_a_failure(tmp_path: Path, step: Step) -> None:
    """After the limit and not before; its slot is free again, and a later run does the work."""
    road = Road(tmp_path)
    road.write(3)
    run = road.until_executing(step)
    road.clock.advance(road.limits.step - timedelta(seconds=5))
    road.turn()
    assert road.states() == [RunState.COMMITTING if step is Step.COMMIT else RunState.RUNNING]
    road.held_pool._held.clear()

    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    hung, _ = road.runs()
    assert (hung.id, hung.state) == (run.id, RunState.FAILED)
    assert hung.outcome is not None
    assert hung.outcome.startswith(f"its step {step} did not end within 2h; ")
    assert road.pool.room().free == road.slots


def impatient(folder: Path, pool: HoldingPool | None = None, clock: RoadClock | None = None) -> Road:
    """Return a road on which a step may stand still for a minute, and take ten as a whole."""
    road = Road(folder, clock=clock)
    road.limits = replace(road.limits, step=timedelta(minutes=1), longest_step=timedelta(minutes=10))
    road.compose(pool)
    return road


def test_a_step_whose_spark_tasks_end_is_not_ended_and_one_that_stands_still_is(tmp_path: Path) -> None:
    """However long it takes: what is told of it when it is ended is for how long nothing has happened."""
    road = impatient(tmp_path)
    road.write(3)
    run = road.until_executing(Step.EXECUTE)
    for _ in range(5):
        road.clock.advance(road.limits.step - timedelta(seconds=5))
        road.turn()
        assert road.states() == [RunState.RUNNING]
        road.held_pool.advance(run.id)
    road.clock.advance(road.limits.step)
    road.turn()
    road.held_pool._held.clear()
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    outcome = road.runs()[0].outcome
    assert outcome is not None
    assert outcome.startswith("its step execute stood still for 1m, none of its Spark tasks ending; ")


def test_a_step_that_goes_on_for_ever_is_ended(tmp_path: Path) -> None:
    """Its tasks end, and it never does."""
    road = impatient(tmp_path)
    road.write(3)
    run = road.until_executing(Step.EXECUTE)
    for _ in range(13):
        road.held_pool.advance(run.id)
        road.clock.advance(timedelta(seconds=50))
        road.turn()
    road.held_pool._held.clear()
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    outcome = road.runs()[0].outcome
    assert outcome is not None
    assert outcome.startswith("its step execute did not end within 10m; ")


def test_a_run_that_waits_for_a_permit_takes_no_step(tmp_path: Path) -> None:
    """Waiting is bounded by its own patience, and never counts as hanging."""
    road = Road(tmp_path)
    road.write(3)
    write = road.lake.begin_write()
    road.until(lambda: road.at(Step.PLAN))
    for _ in range(4):
        road.clock.advance(timedelta(minutes=1))
        road.lake.beat(write)
        road.turn()
    road.lake.commit_write(write)

    road.until(lambda: road.states() == [RunState.SUCCEEDED])


def test_a_joined_step_is_ended_by_its_worker_not_by_us(tmp_path: Path) -> None:
    """Its permit expires, and the worker kills its JVM: cancelling could leave half of a deletion under way."""
    road = Road(tmp_path, policies={Service.CLEAN: COMPACT_AND_CLEAN[Service.CLEAN]})
    prepare(road.lake)
    road.until_executing(Step.COMMIT, Service.CLEAN)
    road.clock.advance(road.limits.step * 2)
    road.for_a_while()

    assert road.states(Service.CLEAN) == [RunState.COMMITTING]


class _Noting(HoldingPool):
    """A pool that notes how large each run's plan may be."""

    def submit(self, assignment: Assignment) -> None:
        self.largest = [*getattr(self, "largest", []), assignment.largest_plan]
        super().submit(assignment)


def test_a_plan_that_was_too_large_is_planned_smaller_for_a_week(tmp_path: Path) -> None:
    """Half of it, with the reason where people look. That the smaller one succeeds does not end it, a week does."""
    pool = _Noting(slots=4, clock=(clock := RoadClock()))
    road = impatient(tmp_path, pool, clock)
    road.write(4)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    road.until(lambda: len(pool.under_way) == 1)
    road.clock.advance(road.limits.step + timedelta(minutes=5))
    road.turn()
    pool._held.clear()
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    status = road.status.table(TRIPS)
    assert status is not None
    [reason] = status.smaller.values()
    assert reason.startswith("plans rewrite 128MiB at most until 2026-01-08, for run ")
    assert "had 256MiB to rewrite: its step execute did not end within" in reason
    road.write(4)
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())
    assert pool.largest == [None, 128 * 2**20, 128 * 2**20]

    ManualClock.advance(clock, SMALLER_FOR)
    later = road.status.table(TRIPS)
    assert later is not None
    assert later.smaller == {}


def test_an_error_that_is_told_makes_no_plan_smaller(tmp_path: Path) -> None:
    """A run that lived to tell of its failure did not fail by its size, for all we know."""
    road = Road(tmp_path)
    road.write(3)
    run = road.until_executing(Step.EXECUTE)
    road.pool.cancel(run.id, "asked by a person")
    road.held_pool._held.clear()
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    status = road.status.table(TRIPS)
    assert status is not None
    assert status.smaller == {}
