"""A step that hangs, at a lock that is never released or a storage that does not answer, is ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import Service
from lakewarden.service.store.port import RunState
from tests.support.road import COMPACT_AND_CLEAN, Road, prepare


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
