"""The circuit breaker of a profile: a cluster that is gone costs each table no run after another."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Blame, Ended, Lost, PoolEvent, Succeeded, Yielded
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.pool.supervision import ProfileBreaker
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from tests.support.pool import light_worker, unable_worker
from tests.support.pool.living_pool import lives
from tests.support.waiting import eventually

MINUTE = 60.0


def tripped(times: int = 3, *, at: float = 0.0) -> ProfileBreaker:
    """Return a breaker that opens after three failures, after so many."""
    breaker = ProfileBreaker(opens_after=3)
    for _ in range(times):
        breaker.failed("no executor came", at)
    return breaker


def test_runs_go_on_until_so_many_workers_in_a_row_have_failed() -> None:
    """One that fails is replaced, as before."""
    assert (tripped(2).runs_at_once(0.0), tripped(2).holds(0.0)) == (None, None)
    assert tripped(3).runs_at_once(0.0) == 0


def test_after_a_pause_one_run_is_tried() -> None:
    """It says why and when, for an operator."""
    breaker = tripped(3)
    assert (breaker.runs_at_once(MINUTE - 1), breaker.runs_at_once(MINUTE)) == (0, 1)
    assert (
        breaker.holds(10.0)
        == "3 workers in a row could not work (no executor came): no run starts, and in 50s one is tried"
    )
    assert (breaker.holds(MINUTE) or "").endswith("one is tried now")


def test_each_further_failure_doubles_the_pause_up_to_half_an_hour() -> None:
    """A cluster that is gone for a day costs 48 runs a day and not each run of each table."""
    breaker = tripped(2)
    pauses = [breaker.failed("no executor came", 0.0) for _ in range(8)]
    assert pauses == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 8, 16, 30, 30, 30)]


def test_a_success_closes_it_and_the_failures_before_it_are_forgotten() -> None:
    """The next failure is the first one."""
    breaker = tripped(5)
    assert breaker.succeeded()
    assert not breaker.succeeded()
    assert breaker.runs_at_once(0.0) is None
    assert breaker.failed("again", 0.0) is None


class Harness:
    """A pool on a cluster that can be gone, on a clock of the test."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.cluster = folder / "cluster"
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self.pool = WorkerPool(
            SparkProfile(formats=(), slots=2, hung_after="1d", start_within="1h", breaker_after=2),
            directory=folder / "pool",
            clock=self.clock,
            command=unable_worker.command(self.cluster),
        )
        self.pool.start(self._events.put)

    def begin(self, run: str) -> None:
        """Give a run to the pool, as soon as a worker is up."""
        eventually(lambda: self._submitted(run))

    def ended(self, run: str) -> Ended | Lost:
        """Give a run to the pool, and return how it ended."""
        self.begin(run)
        while True:
            event = self._events.get(timeout=60)
            if isinstance(event, Ended | Lost) and event.run == run:
                return event

    def _submitted(self, run: str) -> bool:
        try:
            self.pool.submit(
                Assignment(
                    run=RunId(run),
                    epoch=1,
                    table=TableId("a"),
                    format="fake",
                    location="/x",
                    service=Service.COMPACTION,
                )
            )
        except TemporaryError:
            return False
        return True


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """Return a pool that is closed after the test."""
    made = Harness(tmp_path)
    yield made
    made.pool.close()


def outcome(event: Ended | Lost) -> type[object]:
    """Return the kind of the outcome of a run."""
    assert isinstance(event, Ended)
    return type(event.outcome)


def test_a_pool_holds_its_runs_back_while_its_cluster_gives_no_executors(harness: Harness) -> None:
    """Its workers are up meanwhile. After the pause one run is tried, and its success lets the others go on."""
    harness.cluster.touch()
    assert outcome(harness.ended("first")) is Yielded
    assert outcome(harness.ended("second")) is Yielded
    eventually(lambda: harness.pool.capacity().held is not None)
    eventually(lambda: harness.pool.capacity().slots == 2)
    assert harness.pool.capacity().free == 0
    assert unable_worker.WHY in (harness.pool.capacity().held or "")
    assert not harness._submitted("too early")

    harness.cluster.unlink()
    harness.clock.advance(timedelta(minutes=1))
    assert (harness.pool.capacity().slots, harness.pool.capacity().free) == (1, 1)
    assert outcome(harness.ended("tried")) is Succeeded
    assert (harness.pool.capacity().free, harness.pool.capacity().held) == (2, None)


def test_no_more_workers_are_started_for_runs_that_are_held_back(harness: Harness) -> None:
    """They would have no executors either. The pool says that it rests because of that, and not that none comes up."""
    harness.cluster.touch()
    harness.ended("first")
    harness.ended("second")
    eventually(lambda: harness.pool.capacity().held is not None)
    harness.pool.need(7)
    assert harness.pool._need.is_over
    harness.clock.advance(timedelta(minutes=1))
    harness.pool.need(7)
    assert not harness.pool._need.is_over


def test_a_run_that_a_cluster_has_ended_is_not_to_blame(harness: Harness) -> None:
    """No table goes into quarantine because a cluster is gone."""
    harness.cluster.touch()
    lost = harness.ended("it holds on")
    assert isinstance(lost, Lost)
    assert (lost.blame, unable_worker.WHY in lost.reason) == (Blame.NOT_ITS, True)


@pytest.mark.long
def test_a_worker_without_executors_says_so_and_its_run_ends_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason comes from the worker, and not from a file that an operator must look for."""
    monkeypatch.setenv("LIGHT_WORKER_MISSES_EXECUTORS", "1")
    with lives(tmp_path, command=light_worker.COMMAND) as start:
        life = start(executors_within="10s", breaker_after=1)
        life.begin()
        ended = life.until(lambda event: isinstance(event, Ended))
        assert isinstance(ended, Ended)
        assert isinstance(ended.outcome, Yielded)
        assert "no executor of 'local[*]' has come within 10s" in ended.outcome.reason
        eventually(lambda: life.pool.capacity().held is not None)
        assert ended.outcome.reason in (life.pool.capacity().held or "")
