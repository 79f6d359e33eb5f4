"""Which writes a step of ours would fail, by service, step and table version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.writers.activity import (
    how_to_end,
    may_read,
    meeting,
    silent_writes,
    touched_in_flight,
)
from lakewarden.planners.formats.hudi.writers.failures import awaited, endangered_writes
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Step
from lakewarden.planners.model.view import WriterActivity
from tests.support.values import NOW, a_view, an_instant

OLDER = an_instant(time="00000010", state=State.INFLIGHT, guarded_until=NOW)
PLAN = "00000050"
NEWER = an_instant(time="00000090", state=State.INFLIGHT, guarded_until=NOW + timedelta(minutes=1))
SILENT_FROM_THE_START = an_instant(time="00000020", state=State.INFLIGHT, requested_at=NOW - timedelta(minutes=1))
JUST_BEGUN = an_instant(time="00000030", state=State.INFLIGHT, requested_at=NOW - timedelta(seconds=20))


@pytest.mark.parametrize(
    ("service", "step", "version", "expected"),
    [
        (Service.COMPACTION, Step.PLAN, "9", set()),
        (Service.COMPACTION, Step.PLAN, "6", {"00000010", "00000090"}),
        (Service.COMPACTION, Step.EXECUTE, "9", set()),
        (Service.COMPACTION, Step.EXECUTE, "6", set()),
        (Service.COMPACTION, Step.COMMIT, "9", {"00000010"}),
        (Service.COMPACTION, Step.COMMIT, "6", {"00000010"}),
        (Service.LOG_COMPACTION, Step.PLAN, "9", set()),
        (Service.LOG_COMPACTION, Step.EXECUTE, "6", set()),
        (Service.LOG_COMPACTION, Step.COMMIT, "9", {"00000010", "00000090"}),
        (Service.CLUSTERING, Step.PLAN, "9", set()),
        (Service.CLUSTERING, Step.EXECUTE, "9", set()),
        (Service.CLUSTERING, Step.COMMIT, "9", set()),
        (Service.TTL, Step.PLAN, "9", set()),
        (Service.TTL, Step.COMMIT, "9", set()),
        (Service.CLEAN, Step.PLAN, "9", set()),
        (Service.CLEAN, Step.COMMIT, "9", set()),
    ],
)
def test_a_step_waits_for_the_writes_that_would_fail_by_it(
    service: Service, step: Step, version: str, expected: set[str]
) -> None:
    """Each rule follows a failure of a writer that was seen, or read."""
    view = a_view(OLDER, NEWER, version=version)

    found = endangered_writes(view, service, step=step, instant=None if step is Step.PLAN else PLAN)

    assert {write.time for write in found} == expected


def test_a_compaction_is_planned_between_a_writers_writes_where_there_is_a_moment_between_them() -> None:
    """A single writer ends its write soon. Of several one is always in flight, and the plan hurts none."""
    alone, beside = a_view(NEWER, version="9"), a_view(OLDER, NEWER, version="9")

    assert endangered_writes(alone, Service.COMPACTION, step=Step.PLAN, instant=None) == (NEWER,)
    assert endangered_writes(beside, Service.COMPACTION, step=Step.PLAN, instant=None) == ()


def _completed(time: str, *, minutes: float) -> Instant:
    """Return a write that was completed so long after NOW."""
    at = NOW + timedelta(minutes=minutes)
    return an_instant(
        time=time, stands_for=InstantKind.WRITE, state=State.COMPLETED, completed_time=f"{time}9", completed_at=at
    )


def test_only_writes_that_began_before_the_first_one_after_the_plan_ended_lose_to_a_log_compaction() -> None:
    """A write compares itself with what came after the newest commit that it found when it began. A commit that is
    completed after the plan, but sorted before it, makes no write look less far back.
    """
    blind = an_instant(time="00000060", state=State.INFLIGHT, requested_at=NOW)
    knowing = an_instant(time="00000090", state=State.INFLIGHT, requested_at=NOW + timedelta(minutes=2))
    view = a_view(blind, _completed("00000070", minutes=1), _completed("00000080", minutes=3), knowing)
    older = a_view(_completed("00000040", minutes=1), NEWER)

    assert endangered_writes(view, Service.LOG_COMPACTION, step=Step.COMMIT, instant=PLAN) == (blind,)
    assert endangered_writes(older, Service.LOG_COMPACTION, step=Step.COMMIT, instant=PLAN) == (NEWER,)


def test_a_log_compaction_waits_for_a_write_after_its_plan_where_writes_are_expected() -> None:
    """Without one, a write that begins at the moment of the commit would lose to it."""
    busy = WriterActivity(last_commit_at=NOW - timedelta(minutes=5), usual_interval=timedelta(minutes=1))
    quiet = replace(busy, last_commit_at=NOW - timedelta(minutes=11))
    before, after = _completed("00000040", minutes=-5), _completed("00000060", minutes=1)

    def waits(*instants: Instant, writers: WriterActivity, service: Service = Service.LOG_COMPACTION) -> bool:
        view = a_view(*instants, writers=writers, observed_at=NOW)
        return awaited(view, service, step=Step.COMMIT, instant=PLAN) is not None

    assert waits(before, writers=busy)
    assert not waits(before, after, writers=busy)
    assert not waits(before, writers=quiet)
    assert not waits(before, writers=WriterActivity())
    assert not waits(before, writers=busy, service=Service.COMPACTION)


@pytest.mark.parametrize(("version", "expected"), [("6", {"00000020", "00000030"}), ("9", {"00000030"})])
@pytest.mark.parametrize(
    ("service", "step"),
    [(Service.COMPACTION, Step.PLAN), (Service.COMPACTION, Step.COMMIT), (Service.LOG_COMPACTION, Step.COMMIT)],
)
def test_a_write_that_cannot_lose_holds_no_compaction_where_completion_times_order_its_log_files(
    service: Service, step: Step, version: str, expected: set[str]
) -> None:
    """Such a write has failed, or its writer checks no conflicts. Below version 8 a compaction would hide its rows."""
    view = a_view(SILENT_FROM_THE_START, JUST_BEGUN, version=version, observed_at=NOW)

    found = endangered_writes(view, service, step=step, instant=None if step is Step.PLAN else PLAN)

    assert {write.time for write in found} == expected


@given(
    writes=st.lists(
        st.tuples(st.integers(1, 99), st.none() | st.integers(-600, 600), st.integers(0, 3600)),
        unique_by=lambda write: write[0],
    ),
    version=st.sampled_from(["6", "8", "9"]),
)
def test_what_is_executed_can_be_committed(writes: list[tuple[int, int | None, int]], version: str) -> None:
    """If the execution of a compaction waits for nothing, neither will its commit: no write begins before its plan."""
    instants = [
        an_instant(
            time=f"{number:08}",
            state=State.INFLIGHT,
            requested_at=NOW - timedelta(seconds=age),
            guarded_until=None if guard is None else NOW + timedelta(seconds=guard),
        )
        for number, guard, age in writes
    ]
    view = a_view(*instants, version=version, observed_at=NOW)

    def alive(step: Step) -> list[Instant]:
        found = endangered_writes(view, Service.COMPACTION, step=step, instant=PLAN)
        return [write for write in found if write.may_be_alive(NOW)]

    executed = not alive(Step.EXECUTE) and awaited(view, Service.COMPACTION, step=Step.EXECUTE, instant=PLAN) is None

    assert executed is (not alive(Step.COMMIT))


# Which writes in flight conflict with a change of some partitions.


ALIVE = an_instant(time="00000010", state=State.INFLIGHT, guarded_until=NOW + timedelta(minutes=1))
NEVER_BEAT = an_instant(time="00000020", state=State.REQUESTED)
DEAD = an_instant(time="00000030", state=State.INFLIGHT, guarded_until=NOW - timedelta(minutes=1))
PATHS = st.frozensets(st.sampled_from(["", "a", "b", "c"]))


def _writing(**said: frozenset[str]) -> WriterActivity:
    """Return three writes in flight. Those that are named say what they touch."""
    times = {"alive": ALIVE.time, "never_beat": NEVER_BEAT.time, "dead": DEAD.time}
    return WriterActivity(
        in_flight=(ALIVE, NEVER_BEAT, DEAD), touching={times[name]: paths for name, paths in said.items()}
    )


@given(PATHS, st.dictionaries(st.sampled_from(["alive", "never_beat", "dead"]), PATHS))
def test_a_silent_write_is_in_the_way_of_everything(
    changed: frozenset[str], said: Mapping[str, frozenset[str]]
) -> None:
    """A live write conflicts unless it says that it writes elsewhere. A dead write never fails by us."""
    met = meeting(_writing(**said), changed, NOW)

    for name, write in (("alive", ALIVE), ("never_beat", NEVER_BEAT)):
        touches_some = bool(said[name] & changed) if name in said else bool(changed)
        assert (write in met) == touches_some
    assert DEAD not in met


def test_a_write_is_silent_until_it_says_where() -> None:
    """A dead write is not silent: waiting for it to say something would never end."""
    assert silent_writes(_writing(), NOW) == (ALIVE, NEVER_BEAT)
    assert silent_writes(_writing(alive=frozenset("a")), NOW) == (NEVER_BEAT,)
    assert silent_writes(_writing(alive=frozenset("a"), never_beat=frozenset()), NOW) == ()


def test_what_a_dead_write_has_begun_counts_as_touched() -> None:
    """Hudi compares our clustering with the file groups that its inflight file names, also if the writer is dead."""
    assert touched_in_flight(_writing(dead=frozenset("a"), alive=frozenset("b"))) == frozenset("ab")


# Which writes in flight may still read a plan that they have seen. Such a write fails if the plan is withdrawn too
# early.


def write(*, beats_until: timedelta | None = timedelta(minutes=1), age: timedelta = timedelta()) -> Instant:
    return Instant(
        time="20260101115951000",
        action="deltacommit",
        stands_for=InstantKind.WRITE,
        state=State.INFLIGHT,
        requested_at=NOW - age,
        guarded_until=None if beats_until is None else NOW + beats_until,
    )


def test_a_living_write_may_read_the_plans_that_it_has_seen_and_a_dead_one_reads_none() -> None:
    """Its tasks read the plans that it found when it began. A write without a heartbeat may be alive, too, unless it is
    older than any reading task.
    """
    assert may_read(write(), NOW)
    assert may_read(write(beats_until=None, age=timedelta(minutes=9)), NOW)
    assert not may_read(write(beats_until=timedelta(seconds=-1)), NOW)
    assert not may_read(write(beats_until=None, age=timedelta(minutes=11)), NOW)


def test_an_operator_is_told_what_ends_a_write_that_is_in_the_way() -> None:
    """A write without a heartbeat is undone if its owner declares what it is. A living one has a session."""
    assert "declare options: {failed_writes: lazy}, and let a rollback undo it" in how_to_end(write(beats_until=None))
    assert "stop the session that began it" in how_to_end(write())
    assert "failed_writes" not in how_to_end(write())
