"""Which partitions a clustering may take."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.backlog.neglected import ColdPartitions, cold_partitions, disturbed, known_since
from lakewarden.planners.model.instant import InstantKind, Service, State, Timeline
from lakewarden.planners.model.view import Touch, WriterActivity
from tests.support.values import NOW, an_instant

HOUR = timedelta(hours=1)
LONG_AGO = NOW - timedelta(days=9)


def _touched(ago: timedelta, *, instant: str = "00000010", updates: bool = True) -> Touch:
    return Touch(at=NOW - ago, instant=instant, updates=updates)


def _cold(
    partitions: set[str],
    touches: dict[str, Touch],
    *,
    touching: frozenset[str] = frozenset(),
    since: datetime | None = LONG_AGO,
    matching: str | None = None,
) -> ColdPartitions:
    return cold_partitions(
        partitions, touches, touching=touching, known_since=since, untouched_for=HOUR, matching=matching, now=NOW
    )


PATHS = st.sampled_from(["", "a", "b", "day=1", "day=2/hour=3", "a,b", "ü &%20'"])
AGES = st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds))


@given(
    st.sets(PATHS),
    st.dictionaries(PATHS, st.builds(_touched, AGES)),
    st.frozensets(PATHS),
    st.none() | AGES.map(lambda age: NOW - age),
)
def test_nothing_warm_is_ever_taken(
    partitions: set[str], touches: dict[str, Touch], touching: frozenset[str], since: datetime | None
) -> None:
    """A partition that is taken exists, was left alone for long enough as far as is known, and has a name for Hudi."""
    found = _cold(partitions, touches, touching=touching, since=since)

    for path in found.partitions:
        assert path in partitions
        assert path not in touching
        assert "," not in path
        last = touches[path].at if path in touches else since
        assert last is None or last <= NOW - HOUR


def test_a_partition_is_cold_from_the_very_end_of_its_time_on() -> None:
    """Appends count like updates, because a writer that appends may update at any moment."""
    touches = {"a": _touched(HOUR), "b": _touched(HOUR - timedelta(seconds=1), updates=False)}

    assert _cold({"a", "b"}, touches) == ColdPartitions(partitions=("a",), next_at=NOW + timedelta(seconds=1))


def test_what_left_the_timeline_is_taken_for_touched_until_the_timeline_begins() -> None:
    """A timeline that reaches back ten minutes proves nothing about the hour before."""
    begins = NOW - timedelta(minutes=10)

    assert _cold({"a"}, {}, since=begins) == ColdPartitions(partitions=(), next_at=begins + HOUR)
    assert _cold({"a"}, {}, since=LONG_AGO).partitions == ("a",)


def test_a_commit_held_by_a_savepoint_does_not_say_how_far_back_the_timeline_reaches() -> None:
    """Its neighbours may have been archived while it stayed."""
    saved = an_instant(time="00000001", requested_at=LONG_AGO)
    savepoint = an_instant(time="00000001", stands_for=InstantKind.SAVEPOINT, requested_at=LONG_AGO)
    clean = an_instant(time="00000002", stands_for=Service.CLEAN, requested_at=LONG_AGO)
    write = an_instant(time="00000003", requested_at=NOW)

    assert known_since(Timeline(instants=(saved, savepoint, clean, write))) == NOW
    assert known_since(Timeline(instants=(saved, savepoint))) is None


def test_only_whole_paths_match() -> None:
    """As in Hudi, the expression is for the whole path."""
    assert _cold({"day=1", "day=11", "x/day=1"}, {}, matching="day=1").partitions == ("day=1",)


def test_a_table_without_partitions_is_taken_whole_or_not_at_all() -> None:
    """Its one partition has an empty name."""
    assert _cold({""}, {"": _touched(2 * HOUR)}).partitions == ("",)
    assert _cold({""}, {"": _touched(HOUR / 2)}).partitions == ()


PLAN = an_instant(
    time="00000050", action="clustering", stands_for=Service.CLUSTERING, state=State.REQUESTED, requested_at=NOW
)


IN_FLIGHT = an_instant(time="00000040", state=State.INFLIGHT)


def _writing(touches: dict[str, Touch], *touching: str) -> WriterActivity:
    """Return writers with one write in flight that says that it touches these partitions."""
    return WriterActivity(in_flight=(IN_FLIGHT,), touches=touches, touching={IN_FLIGHT.time: frozenset(touching)})


@pytest.mark.parametrize(
    ("writers", "reason"),
    [
        (_writing({}), None),
        (_writing({"b": _touched(-HOUR, instant="00000060")}, "c"), None),
        (_writing({"a": _touched(HOUR, instant="00000040")}), None),
        (_writing({"a": _touched(HOUR, instant="00000060")}), "00000060"),
        (_writing({"a": _touched(-HOUR, instant="00000040")}), "00000040"),
        (_writing({}, "b", "a"), "in flight"),
    ],
)
def test_a_plan_is_disturbed_by_what_touches_its_partitions_after_it(
    writers: WriterActivity, reason: str | None
) -> None:
    """A write that began before the plan and was completed after it counts, and so does one that is only in flight."""
    found = disturbed(frozenset("a"), PLAN, writers)

    assert (found is None) == (reason is None)
    assert reason is None or (found is not None and reason in found)
