"""When a worker must be killed, and when it is started again."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Blame, Ended, Lost, PoolEvent, Succeeded, WorkerEnd, Yielded
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.pool.supervision import (
    Allowance,
    KillReason,
    ProfileBreaker,
    RestartBackoff,
    Watchdog,
    Wear,
    WorkerNeed,
)
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from tests.support.pool import light_worker, unable_worker
from tests.support.pool.living_pool import lives
from tests.support.waiting import eventually

RUN = RunId("run-1")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watchdog(clock: ManualClock) -> Watchdog:
    profile = SparkProfile(start_within="120s", hung_after="60s", cancel_grace="30s")
    return Watchdog(profile, started=clock.monotonic())


def _after(clock: ManualClock, seconds: float) -> float:
    clock.advance(timedelta(seconds=seconds))
    return clock.monotonic()


def granted(seconds: float, clock: ManualClock, *, at_most: float | None = None) -> Allowance:
    """Return the allowance of a step that may be without progress for so many seconds."""
    most = None if at_most is None else timedelta(seconds=at_most)
    return Allowance(granted_at=clock.monotonic(), expires=timedelta(seconds=seconds), at_most=most)


def test_a_worker_may_take_its_time_to_start_but_not_for_ever(watchdog: Watchdog, clock: ManualClock) -> None:
    """Until its session is up, only `start_within` counts."""
    assert watchdog.fault(_after(clock, 119)) is None
    assert watchdog.fault(_after(clock, 2)) == KillReason(reason="its session was not up within 120 s")


def test_a_worker_whose_jvm_does_not_answer_is_hung(watchdog: Watchdog, clock: ManualClock) -> None:
    """Every sign of life gives it another `hung_after`."""
    watchdog.proof_of_life(clock.monotonic())
    watchdog.proof_of_life(_after(clock, 59))
    assert watchdog.fault(_after(clock, 59)) is None
    assert watchdog.fault(_after(clock, 2)) == KillReason(reason="its JVM has not answered for 60 s")


@pytest.mark.parametrize("jvm_answers", [True, False])
def test_a_step_that_outlives_its_permit_ends_its_worker(
    watchdog: Watchdog, clock: ManualClock, *, jvm_answers: bool
) -> None:
    """However well the JVM answers, or does not: what the run had to do in time is known."""
    watchdog.proof_of_life(clock.monotonic())
    watchdog.permitted(RUN, granted(60, clock))
    assert watchdog.fault(_after(clock, 60)) is None
    if jvm_answers:
        watchdog.proof_of_life(clock.monotonic())
    assert watchdog.fault(_after(clock, 1)) == KillReason(
        reason="the permit of run run-1 has expired", culprits=frozenset({RUN})
    )


def test_a_step_whose_tasks_end_goes_on_and_one_that_stands_still_does_not(
    watchdog: Watchdog, clock: ManualClock
) -> None:
    """A plan of 500 GB takes hours. A lock that is never released shows no progress."""
    watchdog.permitted(RUN, granted(100, clock))
    for _ in range(20):
        watchdog.proof_of_life(_after(clock, 99))
        assert watchdog.fault(clock.monotonic()) is None
        watchdog.advanced(RUN, clock.monotonic())
    watchdog.advanced(RunId("neighbour"), _after(clock, 60))
    watchdog.proof_of_life(_after(clock, 41))

    found = watchdog.fault(clock.monotonic())

    assert found is not None
    assert found.culprits == {RUN}


def test_a_step_that_begins_the_same_again_and_again_ends_all_the_same(watchdog: Watchdog, clock: ManualClock) -> None:
    """Tasks that end do not prove that the whole step will."""
    watchdog.permitted(RUN, granted(100, clock, at_most=250))
    for _ in range(5):
        watchdog.proof_of_life(_after(clock, 50))
        watchdog.advanced(RUN, clock.monotonic())
        assert watchdog.fault(clock.monotonic()) is None

    watchdog.proof_of_life(_after(clock, 1))
    assert watchdog.fault(clock.monotonic()) is not None


def test_progress_in_an_earlier_step_lengthens_no_later_one(watchdog: Watchdog, clock: ManualClock) -> None:
    """Each permit counts from the moment when it was given."""
    watchdog.permitted(RUN, granted(100, clock))
    watchdog.advanced(RUN, _after(clock, 90))
    watchdog.step_ended(RUN)
    watchdog.permitted(RUN, granted(10, clock))
    watchdog.proof_of_life(_after(clock, 11))

    assert watchdog.fault(clock.monotonic()) is not None


def test_of_several_runs_those_that_outlived_their_permits_are_named(watchdog: Watchdog, clock: ManualClock) -> None:
    """Other runs in the same JVM are not named: their permits still run, and their grace."""
    watchdog.proof_of_life(clock.monotonic())
    for run, seconds in (("late", 10), ("also-late", 11), ("in-time", 60)):
        watchdog.permitted(RunId(run), granted(seconds, clock))
    watchdog.cancelled(RunId("in-its-grace"), clock.monotonic())
    now = _after(clock, 20)

    assert watchdog.overdue(now) == watchdog.fault(now)
    assert watchdog.fault(now) == KillReason(
        reason="the permit of run also-late and run late has expired",
        culprits=frozenset({RunId("late"), RunId("also-late")}),
    )


@pytest.mark.parametrize("release", [Watchdog.step_ended, Watchdog.run_ended])
def test_a_step_that_ended_in_time_is_not_held_against_its_worker(
    watchdog: Watchdog, clock: ManualClock, release: Callable[[Watchdog, RunId], None]
) -> None:
    """The end of a permit means nothing after its step has ended."""
    watchdog.permitted(RUN, granted(10, clock))
    release(watchdog, RUN)
    watchdog.proof_of_life(_after(clock, 50))

    assert watchdog.fault(clock.monotonic()) is None


def test_a_cancelled_run_has_one_grace_whatever_it_does(watchdog: Watchdog, clock: ManualClock) -> None:
    """Neither a second cancel nor another step makes the grace longer. Only the end of the run stops the clock."""
    watchdog.cancelled(RUN, clock.monotonic())
    watchdog.cancelled(RUN, _after(clock, 20))
    watchdog.step_ended(RUN)
    watchdog.proof_of_life(_after(clock, 11))
    assert watchdog.fault(clock.monotonic()) == KillReason(
        reason="run run-1 was cancelled and has not ended within its grace", culprits=frozenset({RUN})
    )

    watchdog.run_ended(RUN)
    assert watchdog.fault(clock.monotonic()) is None


def test_a_worker_that_was_asked_to_stop_has_one_grace(watchdog: Watchdog, clock: ManualClock) -> None:
    """If a session hangs while it closes, it is killed."""
    watchdog.proof_of_life(clock.monotonic())
    watchdog.asked_to_stop(clock.monotonic())
    watchdog.proof_of_life(_after(clock, 29))
    assert watchdog.fault(clock.monotonic()) is None
    watchdog.proof_of_life(_after(clock, 2))
    assert watchdog.fault(clock.monotonic()) == KillReason(
        reason="it was asked to stop and has not ended within its grace"
    )


def _worn(*samples: tuple[int, int], hours: float = 0) -> str | None:
    """Return why a worker is to be replaced after so many runs, with so many MiB."""
    profile = SparkProfile(recycle_after=500, recycle_age="24h", recycle_growth="512MiB")
    wear = Wear(profile, started=100)
    for runs, mebibytes in samples:
        while wear.runs < runs:
            wear.run_taken()
        wear.weighed(mebibytes * 2**20)
    return wear.reason(100 + hours * 3600)


@pytest.mark.parametrize(
    ("samples", "hours", "reason"),
    [
        pytest.param([], 0, None, id="a fresh one"),
        pytest.param([(0, 200), (19, 1900)], 0, None, id="warming up is not a leak"),
        pytest.param([(0, 200), (20, 800), (200, 1312)], 23.9, None, id="just within its bounds"),
        pytest.param([(20, 800), (200, 1313)], 0, "its memory has grown by 513MiB since its 20th run", id="grown"),
        pytest.param([(20, 800), (60, 1400), (61, 900)], 0, None, id="what was given back is not a growth"),
        pytest.param([(20, 800), (60, 700), (61, 1300)], 0, None, id="it counts from the twentieth run on"),
        pytest.param([(30, 800), (60, 1400)], 0, "its memory has grown by 600MiB since its 20th run", id="seen late"),
        pytest.param([(499, 300)], 0, None, id="one run is left"),
        pytest.param([(500, 300)], 0, "it has taken 500 runs", id="run out"),
        pytest.param([], 24.1, "it is older than 1d", id="old, and idle all the time"),
    ],
)
def test_a_worker_wears_by_runs_by_age_and_by_what_its_memory_grows(
    samples: list[tuple[int, int]], hours: float, reason: str | None
) -> None:
    """The memory of the JVM's warm-up does not count. Memory that it takes later and keeps does."""
    assert _worn(*samples, hours=hours) == reason


def test_the_first_death_is_forgiven_and_the_next_ones_cost_more_and_more() -> None:
    """The first restart comes at once. The next come 1, 2, 4 ... seconds apart, at most a minute, until a worker has
    worked again.
    """
    backoff = RestartBackoff()

    assert [backoff.after_death().total_seconds() for _ in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    backoff.worked()
    assert backoff.after_death() == timedelta(0)


# The circuit breaker of a profile: a cluster that is gone costs each table no run after another.

MINUTE = 60.0


def tripped(times: int = 3, *, at: float = 0.0) -> ProfileBreaker:
    """Return a breaker that opens after three failures, after so many."""
    breaker = ProfileBreaker(opens_after=3)
    for _ in range(times):
        breaker.failed("no executor came", at)
    return breaker


def test_after_so_many_failures_in_a_row_runs_are_held_back_and_after_a_pause_one_is_tried() -> None:
    """It says why and when, for an operator."""
    assert (tripped(2).runs_at_once(0.0), tripped(2).holds(0.0)) == (None, None)
    breaker = tripped(3)
    assert [breaker.runs_at_once(at) for at in (0.0, MINUTE - 1, MINUTE)] == [0, 0, 1]
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


# How many session workers are started, and when they rest.

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
    """Neither if it is asked for again, nor beside a worker that is kept at rest and is not up yet. One that ended is
    started again. One that is ready serves the runs that wait, until the control thread has said anew how many do.
    """
    needed = need(at_rest=0, waiting=2)
    assert begun(needed) == ["worker-1"]
    assert begun(needed) == []
    needed.gone("worker-1")
    assert begun(needed) == ["worker-1"]
    needed.ready("worker-1")
    assert needed.is_over
    assert begun(needed) == []
    needed.runs_wait(1)
    assert begun(needed) == ["worker-1"]
    assert begun(need(at_rest=1, waiting=2), starting=1) == ["worker-1"]


def test_workers_that_are_kept_start_without_a_need() -> None:
    """They are warm when the first run comes."""
    assert begun(need(at_rest=2)) == ["worker-1", "worker-2"]


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


@pytest.mark.long
def test_a_pool_reports_why_its_workers_ended_and_not_that_it_was_closed(tmp_path: Path) -> None:
    """An operator sees whether JVMs die, or whether the daemon ends them. A daemon that stops restarts nothing."""
    ends: list[WorkerEnd] = []
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        restarted=ends.append,
    )

    def up() -> None:
        eventually(lambda: pool.capacity().slots > 0)

    pool.start(lambda _event: None)
    up()
    os.kill(pool._workers[0].process.pid, signal.SIGKILL)
    eventually(lambda: ends == [WorkerEnd.DIED])
    up()
    pool.evict("the lease is late")
    eventually(lambda: ends == [WorkerEnd.DIED, WorkerEnd.EVICTED])
    up()
    pool.close()

    assert ends == [WorkerEnd.DIED, WorkerEnd.EVICTED]
