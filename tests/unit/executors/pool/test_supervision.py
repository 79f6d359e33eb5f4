"""When a worker must be killed, and when it is started again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakewarden.executors.pool.supervision import Allowance, KillReason, RestartBackoff, Watchdog, Wear, allowance
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId

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
    return allowance(timedelta(seconds=seconds), most, now=clock.monotonic())


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


def test_a_step_that_outlives_its_permit_ends_its_worker(watchdog: Watchdog, clock: ManualClock) -> None:
    """This holds however well the JVM answers."""
    watchdog.permitted(RUN, granted(100, clock))
    watchdog.proof_of_life(_after(clock, 99))
    assert watchdog.fault(clock.monotonic()) is None
    watchdog.proof_of_life(_after(clock, 2))
    assert watchdog.fault(clock.monotonic()) == KillReason(
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


def test_an_expired_permit_is_told_although_its_jvm_does_not_answer_either(
    watchdog: Watchdog, clock: ManualClock
) -> None:
    """What the run had to do in time is known. What keeps the JVM from answering is not."""
    watchdog.proof_of_life(clock.monotonic())
    watchdog.permitted(RUN, granted(60, clock))

    found = watchdog.fault(_after(clock, 61))

    assert found is not None
    assert found.culprits == {RUN}


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
        pytest.param([(0, 200), (19, 1900)], 0, None, id="warming up is no leak"),
        pytest.param([(0, 200), (20, 800), (200, 1312)], 23.9, None, id="just within its bounds"),
        pytest.param([(20, 800), (200, 1313)], 0, "its memory has grown by 513MiB since its 20th run", id="grown"),
        pytest.param([(20, 800), (60, 1400), (61, 900)], 0, None, id="what was given back is no growth"),
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
