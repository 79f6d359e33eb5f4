"""When a plan of ours may be removed beside writes in flight: who has seen it fails if it is gone too soon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.executors.programs.hudi.opened import may_be_removed
from lakewarden.planners.model.instant import Deed, Instant, State

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAN = "20260101115950000"


def write(time: str, *, beats_until: timedelta | None = timedelta(minutes=1), age: timedelta = timedelta()) -> Instant:
    return Instant(
        time=time,
        action="deltacommit",
        stands_for=Deed.WRITE,
        state=State.INFLIGHT,
        requested_at=NOW - age,
        guarded_until=None if beats_until is None else NOW + beats_until,
    )


BEFORE = write("20260101115949000")
AFTER = write("20260101115951000")


def test_a_plan_goes_where_nobody_writes() -> None:
    """Whether it hurts writers or not: nobody can have seen it who still reads it."""
    assert may_be_removed(PLAN, [], now=NOW, hurts_writers=False)
    assert may_be_removed(PLAN, [], now=NOW, hurts_writers=True)


def test_a_plan_that_a_living_write_may_have_seen_stays() -> None:
    """Its tasks read the plans that were on the timeline when it began, and fail if one is missing."""
    assert not may_be_removed(PLAN, [AFTER], now=NOW, hurts_writers=False)
    assert not may_be_removed(PLAN, [BEFORE], now=NOW, hurts_writers=False)
    assert not may_be_removed(PLAN, [AFTER], now=NOW, hurts_writers=True)


def test_a_plan_that_makes_an_earlier_write_fail_goes_at_once() -> None:
    """That write fails for certain while the plan is pending; the later one only perhaps when it is gone."""
    assert may_be_removed(PLAN, [BEFORE, AFTER], now=NOW, hurts_writers=True)


def test_a_dead_write_is_not_waited_for() -> None:
    """Neither one whose heartbeat has run out, nor one that shows none and is as old as no reading task is."""
    silent = write("20260101115951000", beats_until=timedelta(seconds=-1))
    assert may_be_removed(PLAN, [silent], now=NOW, hurts_writers=False)
    unmarked = write("20260101115951000", beats_until=None, age=timedelta(minutes=11))
    assert may_be_removed(PLAN, [unmarked], now=NOW, hurts_writers=False)
    assert not may_be_removed(
        PLAN, [write("20260101115951000", beats_until=None, age=timedelta(minutes=9))], now=NOW, hurts_writers=False
    )
