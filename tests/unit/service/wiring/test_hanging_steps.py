"""A step that hangs, at a lock that is never released or a storage that does not answer, is ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.model.run import RunState
from lakewarden.service.state.service_states import SMALLER_FOR
from tests.support.daemon.daemon_harness import (
    COMPACT_AND_CLEAN,
    TRIPS,
    DaemonHarness,
    HarnessClock,
    HoldingPool,
    prepare,
)


@pytest.mark.parametrize("step", Step)
def test_a_step_that_does_not_end_is_cancelled_and_counts_as_a_failure(tmp_path: Path, step: Step) -> None:
    """After the limit and not before; its slot is free again, and a later run does the work."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(step)
    harness.clock.advance(harness.limits.step - timedelta(seconds=5))
    harness.turn()
    assert harness.states() == [RunState.COMMITTING if step is Step.COMMIT else RunState.RUNNING]
    harness.held_pool._held.clear()

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    hung, _ = harness.runs()
    assert (hung.id, hung.state) == (run.id, RunState.FAILED)
    assert hung.outcome is not None
    assert hung.outcome.startswith(f"its step {step} did not end within 2h; ")
    assert harness.pool.capacity().free == harness.slots


def short_of_time(folder: Path, pool: HoldingPool | None = None, clock: HarnessClock | None = None) -> DaemonHarness:
    """Return a daemon on which a step may stand still for a minute, and take ten as a whole."""
    harness = DaemonHarness(folder, clock=clock)
    harness.limits = replace(harness.limits, step=timedelta(minutes=1), longest_step=timedelta(minutes=10))
    harness.compose(pool)
    return harness


def test_a_step_whose_spark_tasks_end_is_not_ended_and_one_that_stands_still_is(tmp_path: Path) -> None:
    """However long it takes: what is told of it when it is ended is for how long nothing has happened."""
    harness = short_of_time(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    for _ in range(5):
        harness.clock.advance(harness.limits.step - timedelta(seconds=5))
        harness.turn()
        assert harness.states() == [RunState.RUNNING]
        harness.held_pool.advance(run.id)
    harness.clock.advance(harness.limits.step)
    harness.turn()
    harness.held_pool._held.clear()
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    outcome = harness.runs()[0].outcome
    assert outcome is not None
    assert outcome.startswith("its step execute made no progress for 1m: no Spark task ended; ")


def test_a_step_that_goes_on_for_ever_is_ended(tmp_path: Path) -> None:
    """Its tasks end, and it never does."""
    harness = short_of_time(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    for _ in range(13):
        harness.held_pool.advance(run.id)
        harness.clock.advance(timedelta(seconds=50))
        harness.turn()
    harness.held_pool._held.clear()
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    outcome = harness.runs()[0].outcome
    assert outcome is not None
    assert outcome.startswith("its step execute did not end within 10m; ")


def test_a_run_that_waits_for_a_permit_takes_no_step(tmp_path: Path) -> None:
    """Waiting is bounded by its own timeout, and never counts as hanging."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    write = harness.lake.begin_write()
    harness.until(lambda: harness.at(Step.PLAN))
    for _ in range(4):
        harness.clock.advance(timedelta(minutes=1))
        harness.lake.beat(write)
        harness.turn()
    harness.lake.commit_write(write)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


def test_a_joined_step_is_ended_by_its_worker_not_by_us(tmp_path: Path) -> None:
    """Its permit expires, and the worker kills its JVM: cancelling could leave half of a deletion under way."""
    harness = DaemonHarness(tmp_path, policies={Service.CLEAN: COMPACT_AND_CLEAN[Service.CLEAN]})
    prepare(harness.lake)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    harness.clock.advance(harness.limits.step * 2)
    harness.for_a_while()

    assert harness.states(Service.CLEAN) == [RunState.COMMITTING]


class _Noting(HoldingPool):
    """A pool that notes how large each run's plan may be."""

    def submit(self, assignment: Assignment) -> None:
        self.largest = [*getattr(self, "largest", []), assignment.largest_plan]
        super().submit(assignment)


def test_a_plan_that_was_too_large_is_planned_smaller_for_a_week(tmp_path: Path) -> None:
    """Half of it, with the reason where people look. That the smaller one succeeds does not end it, a week does."""
    pool = _Noting(slots=4, clock=(clock := HarnessClock()))
    harness = short_of_time(tmp_path, pool, clock)
    harness.write(4)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: len(pool.under_way) == 1)
    harness.clock.advance(harness.limits.step + timedelta(minutes=5))
    harness.turn()
    pool._held.clear()
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    status = harness.status.table(TRIPS)
    assert status is not None
    [reason] = status.smaller.values()
    assert reason.startswith("plans rewrite 128MiB at most until 2026-01-08, for run ")
    assert "had 256MiB to rewrite: its step execute did not end within" in reason
    harness.write(4)
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())
    assert pool.largest == [None, 128 * 2**20, 128 * 2**20]

    ManualClock.advance(clock, SMALLER_FOR)
    later = harness.status.table(TRIPS)
    assert later is not None
    assert later.smaller == {}


def test_an_error_that_is_told_makes_no_plan_smaller(tmp_path: Path) -> None:
    """A run that lived to tell of its failure did not fail by its size, for all we know."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    harness.pool.cancel(run.id, "asked by a person")
    harness.held_pool._held.clear()
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    status = harness.status.table(TRIPS)
    assert status is not None
    assert status.smaller == {}
