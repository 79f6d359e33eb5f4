"""Which writes in flight may still read a plan that they have seen. Such a write fails if the plan is withdrawn too
early.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.planners.formats.hudi.writers.activity import how_to_end, may_read
from lakewarden.planners.model.instant import Instant, InstantKind, State

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write(*, beats_until: timedelta | None = timedelta(minutes=1), age: timedelta = timedelta()) -> Instant:
    return Instant(
        time="20260101115951000",
        action="deltacommit",
        stands_for=InstantKind.WRITE,
        state=State.INFLIGHT,
        requested_at=NOW - age,
        guarded_until=None if beats_until is None else NOW + beats_until,
    )


def test_a_living_write_may_read_the_plans_that_it_has_seen() -> None:
    """Its tasks read the plans that it found when it began. A write without a heartbeat may be alive, too."""
    assert may_read(write(), NOW)
    assert may_read(write(beats_until=None, age=timedelta(minutes=9)), NOW)


def test_a_dead_write_reads_no_plan() -> None:
    """Its heartbeat has expired, or it has none and is older than any reading task."""
    assert not may_read(write(beats_until=timedelta(seconds=-1)), NOW)
    assert not may_read(write(beats_until=None, age=timedelta(minutes=11)), NOW)


def test_an_operator_is_told_what_ends_a_write_that_is_in_the_way() -> None:
    """A write without a heartbeat is undone if its owner declares what it is. A living one has a session."""
    assert "declare options: {failed_writes: lazy}, and let a rollback undo it" in how_to_end(write(beats_until=None))
    assert "stop the session that began it" in how_to_end(write())
    assert "failed_writes" not in how_to_end(write())
