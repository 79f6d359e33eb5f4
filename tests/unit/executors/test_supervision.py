"""When a worker has to be killed, and when it is started again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakewarden.executors.pool.supervision import Allowance, Backoff, Fault, Watch, Wear, allowance
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId

RUN = RunId("run-1")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock: ManualClock) -> Watch:
    profile = SparkProfile(start_within="120s", hung_after="60s", cancel_grace="30s")
    return Watch(profile, started=clock.monotonic())


def _after(clock: ManualClock, seconds: float) -> float:
    clock.advance(timedelta(seconds=seconds))
    return clock.monotonic()


def granted(seconds: float, clock: ManualClock, *, at_most: float | None = None) -> Allowance:
    """Return the allowance of a step that may stand still for so many seconds."""
    most = None if at_most is None else timedelta(seconds=at_most)
    return allowance(timedelta(seconds=seconds), most, now=clock.monotonic())


def test_a_worker_may_take_its_time_to_start_but_not_for_ever(watch: Watch, clock: ManualClock) -> None:
    """Until its session is up, only `start_within` counts."""
    assert watch.fault(_after(clock, 119)) is None
    assert watch.fault(_after(clock, 2)) == Fault(reason="its session was not up within 120 s")


def test_a_worker_whose_jvm_does_not_answer_is_hung(watch: Watch, clock: ManualClock) -> None:
    """Every proof of life buys another `hung_after`."""
    watch.proof_of_life(clock.monotonic())
    watch.proof_of_life(_after(clock, 59))
    assert watch.fault(_after(clock, 59)) is None
    assert watch.fault(_after(clock, 2)) == Fault(reason="its JVM has not answered for 60 s")


def test_a_step_that_outlives_its_permit_ends_its_worker(watch: Watch, clock: ManualClock) -> None:
    """However well the JVM answers, the permit's end is the step's end."""
    watch.permitted(RUN, granted(100, clock))
    watch.proof_of_life(_after(clock, 99))
    assert watch.fault(clock.monotonic()) is None
    watch.proof_of_life(_after(clock, 2))
    assert watch.fault(clock.monotonic()) == Fault(
        reason="the permit of run run-1 has expired", culprits=frozenset({RUN})
    )


def test_a_step_whose_tasks_end_goes_on_and_one_that_stands_still_does_not(watch: Watch, clock: ManualClock) -> None:
    """A plan of 500 GB takes hours; a lock that is never released is told from it by its silence."""
    watch.permitted(RUN, granted(100, clock))
    for _ in range(20):
        watch.proof_of_life(_after(clock, 99))
        assert watch.fault(clock.monotonic()) is None
        watch.advanced(RUN, clock.monotonic())
    watch.advanced(RunId("neighbour"), _after(clock, 60))
    watch.proof_of_life(_after(clock, 41))

    found = watch.fault(clock.monotonic())

    assert found is not None
    assert found.culprits == {RUN}


def test_a_step_that_begins_the_same_again_and_again_ends_all_the_same(watch: Watch, clock: ManualClock) -> None:
    """Tasks that end are no proof that the whole will."""
    watch.permitted(RUN, granted(100, clock, at_most=250))
    for _ in range(5):
        watch.proof_of_life(_after(clock, 50))
        watch.advanced(RUN, clock.monotonic())
        assert watch.fault(clock.monotonic()) is None

    watch.proof_of_life(_after(clock, 1))
    assert watch.fault(clock.monotonic()) is not None


def test_progress_in_an_earlier_step_lengthens_no_later_one(watch: Watch, clock: ManualClock) -> None:
    """Each permit counts from when it was given."""
    watch.permitted(RUN, granted(100, clock))
    watch.advanced(RUN, _after(clock, 90))
    watch.step_ended(RUN)
    watch.permitted(RUN, granted(10, clock))
    watch.proof_of_life(_after(clock, 11))

    assert watch.fault(clock.monotonic()) is not None


def test_of_several_runs_those_that_outlived_their_permits_are_named(watch: Watch, clock: ManualClock) -> None:
    """And nobody who was in the JVM beside them: its permit runs, and its grace."""
    watch.proof_of_life(clock.monotonic())
    for run, seconds in (("late", 10), ("also-late", 11), ("in-time", 60)):
        watch.permitted(RunId(run), granted(seconds, clock))
    watch.cancelled(RunId("in-its-grace"), clock.monotonic())
    now = _after(clock, 20)

    assert watch.overdue(now) == watch.fault(now)
    assert watch.fault(now) == Fault(
        reason="the permit of run also-late and run late has expired",
        culprits=frozenset({RunId("late"), RunId("also-late")}),
    )


def test_an_expired_permit_is_told_although_its_jvm_does_not_answer_either(watch: Watch, clock: ManualClock) -> None:
    """What the run had to do in time is known; who keeps the JVM from answering is not."""
    watch.proof_of_life(clock.monotonic())
    watch.permitted(RUN, granted(60, clock))

    found = watch.fault(_after(clock, 61))

    assert found is not None
    assert found.culprits == {RUN}


@pytest.mark.parametrize("release", [Watch.step_ended, Watch.run_ended])
def test_a_step_that_ended_in_time_is_not_held_against_its_worker(
    watch: Watch, clock: ManualClock, release: Callable[[Watch, RunId], None]
) -> None:
    """A permit's end means nothing once its step is over."""
    watch.permitted(RUN, granted(10, clock))
    release(watch, RUN)
    watch.proof_of_life(_after(clock, 50))

    assert watch.fault(clock.monotonic()) is None


def test_a_cancelled_run_has_one_grace_whatever_it_does(watch: Watch, clock: ManualClock) -> None:
    """Neither a second cancel nor another step lengthens the grace of a cancelled run; only its end stops the clock."""
    watch.cancelled(RUN, clock.monotonic())
    watch.cancelled(RUN, _after(clock, 20))
    watch.step_ended(RUN)
    watch.proof_of_life(_after(clock, 11))
    assert watch.fault(clock.monotonic()) == Fault(
        reason="run run-1 was cancelled and has not ended within its grace", culprits=frozenset({RUN})
    )

    watch.run_ended(RUN)
    assert watch.fault(clock.monotonic()) is None


def test_a_worker_that_was_asked_to_stop_has_one_grace(watch: Watch, clock: ManualClock) -> None:
    """A session that hangs while it ends in good order is ended otherwise."""
    watch.proof_of_life(clock.monotonic())
    watch.asked_to_stop(clock.monotonic())
    watch.proof_of_life(_after(clock, 29))
    assert watch.fault(clock.monotonic()) is None
    watch.proof_of_life(_after(clock, 2))
    assert watch.fault(clock.monotonic()) == Fault(reason="it was asked to stop and has not ended within its grace")


def _worn(*samples: tuple[int, int], hours: float = 0) -> str | None:
    """Return why a worker is to be replaced that has had so many runs when it weighed so many MiB."""
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
    """What a JVM needs to get warm is not held against it; what it takes later, and keeps, is."""
    assert _worn(*samples, hours=hours) == reason


def test_the_first_death_is_forgiven_and_the_next_ones_cost_more_and_more() -> None:
    """Restarts come at once, then 1, 2, 4 ... seconds apart, at most a minute, until a worker has worked again."""
    backoff = Backoff()

    assert [backoff.after_death().total_seconds() for _ in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    backoff.worked()
    assert backoff.after_death() == timedelta(0)
