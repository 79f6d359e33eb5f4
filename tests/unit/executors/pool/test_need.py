"""How many session workers are started, and when they rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.executors.contract import WorkerEnd
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.pool.supervision import Wear, WorkerNeed
from lakewarden.executors.profile import SparkProfile
from tests.support.pool import light_worker
from tests.support.waiting import eventually

NAMES = ["worker-1", "worker-2", "worker-3"]


def need(*, at_rest: int, slots: int = 2, waiting: int = 0) -> WorkerNeed:
    """Return the need for three workers."""
    made = WorkerNeed(SparkProfile(workers=3, at_rest=at_rest, slots=slots), NAMES)
    made.runs_wait(waiting)
    return made


def begun(needed: WorkerNeed, *, starting: int = 0) -> list[str]:
    """Return the workers that start now."""
    return [name for name in NAMES if needed.begin(name, starting=starting)]


@pytest.mark.parametrize(("waiting", "started"), [(0, 0), (1, 1), (2, 1), (3, 2), (5, 3), (50, 3)])
def test_as_many_workers_start_as_have_slots_for_the_runs_that_wait(waiting: int, started: int) -> None:
    """And never more than there may be."""
    assert len(begun(need(at_rest=0, waiting=waiting))) == started


def test_what_is_starting_already_is_not_started_twice() -> None:
    """Neither if it is asked for again, nor beside a worker that is kept at rest and is not up yet."""
    needed = need(at_rest=0, waiting=2)
    assert begun(needed) == ["worker-1"]
    assert begun(needed) == []
    assert begun(need(at_rest=1, waiting=2), starting=1) == ["worker-1"]


def test_workers_that_are_kept_start_without_a_need() -> None:
    """They are warm when the first run comes."""
    assert begun(need(at_rest=2)) == ["worker-1", "worker-2"]
    assert begun(need(at_rest=3)) == NAMES


def test_a_worker_that_is_ready_serves_the_runs_that_wait() -> None:
    """Until the control thread has said it anew. It does not start a second one meanwhile."""
    needed = need(at_rest=0, waiting=2)
    assert begun(needed) == ["worker-1"]
    needed.ready("worker-1")
    assert needed.is_over
    assert begun(needed) == []
    needed.runs_wait(1)
    assert begun(needed) == ["worker-1"]


def test_a_worker_that_has_ended_at_its_start_is_started_again() -> None:
    """The runs still wait."""
    needed = need(at_rest=0, waiting=1)
    assert begun(needed) == ["worker-1"]
    needed.gone("worker-1")
    assert begun(needed) == ["worker-1"]


def test_workers_rest_while_no_run_waits() -> None:
    """If runs wait and no worker comes up, that is no rest: an operator must see it."""
    needed = need(at_rest=1)
    assert (needed.resting_slots(others_alive=0), needed.resting_slots(others_alive=2)) == (4, 0)
    needed.runs_wait(1)
    assert needed.resting_slots(others_alive=0) == 0
    assert need(at_rest=3).resting_slots(others_alive=0) == 0


def test_a_worker_rests_when_it_had_no_run_for_long_enough() -> None:
    """Counted from the end of its last run, and from its start if it had none."""
    wear = Wear(SparkProfile(idle_after="10m"), started=0.0)
    assert (wear.rests(599.0), wear.rests(600.0)) == (False, True)
    wear.run_taken()
    assert not wear.rests(10_000.0)
    wear.left_alone(10_000.0)
    assert (wear.rests(10_599.0), wear.rests(10_600.0)) == (False, True)


def test_more_workers_at_rest_than_there_are_is_refused() -> None:
    """By the names of both settings."""
    with pytest.raises(ValueError, match="at_rest: 2 is more than workers: 1"):
        SparkProfile(workers=1, at_rest=2)


@pytest.mark.long
def test_a_pool_starts_its_workers_when_runs_wait_and_stops_them_when_none_came(tmp_path: Path) -> None:
    """At rest no process is left, and the next run finds a worker again."""
    ends: list[WorkerEnd] = []
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms", workers=2, at_rest=0, slots=2, idle_after="1s"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        restarted=ends.append,
    )
    pool.start(lambda _event: None)
    try:
        assert (pool.capacity().slots, pool.capacity().resting) == (0, 4)
        for times in (1, 2):
            pool.need(1)
            eventually(lambda: pool.capacity().slots == 2)
            pool.need(0)
            eventually(lambda: ends == [WorkerEnd.RESTED] * times)  # noqa: B023 - called before the next round
            eventually(lambda: pool.capacity().resting == 4)
            assert not pool._workers
    finally:
        pool.close()
