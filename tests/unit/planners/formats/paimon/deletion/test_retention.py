"""Which snapshots may expire, and what holds the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.deletion.retention import Retention, Rule, beyond_retention, rule_of
from lakewarden.planners.formats.paimon.metadata.history import Consumer, History, References
from lakewarden.planners.formats.paimon.metadata.snapshots import BATCH, CommitKind, Snapshot
from lakewarden.planners.formats.paimon.options.core_options import core_options
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.writers import commit_users

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def snapshot(number: int, age: timedelta, *, user: str = "batch", identifier: int = BATCH) -> Snapshot:
    return Snapshot(
        id=number, version=3, schema=0, base="b", base_size=None, delta="d", delta_size=None, changelog=None,
        index=None, user=user, identifier=identifier, kind=CommitKind.APPEND, at=NOW - age, records=0,
    )  # fmt: skip


def history(count: int, *, read: int | None = None, first: int = 1, jobs: Sequence[tuple[str, int]] = ()) -> History:
    """Return snapshots. Each is ten minutes older than the next, and the newest is new. `jobs` made those of them."""
    numbers, by = range(first, first + count), {number: job for job, number in jobs}
    snapshots = [
        snapshot(
            one, (numbers[-1] - one) * 10 * MINUTE, user=by.get(one, "batch"), identifier=7 if one in by else BATCH
        )
        for one in numbers
    ]
    return History(snapshots=tuple(snapshots[-(read or count) :]), oldest=first)


def rule(**other: object) -> Rule:
    given_ = {"age": HOUR, "outage": HOUR, "restores": 2 * HOUR, "least": 10, "most": 2**31, "keep_last": False}
    return Rule(**{**given_, **other})  # type: ignore[arg-type]


def told(of: History, *consumers: Consumer, now: datetime = NOW, **other: object) -> Retention:
    return beyond_retention(of, References(consumers=consumers), commit_users(of.snapshots), rule(**other), now)


def test_old_ones_go_beyond_the_least_number() -> None:
    """From the oldest on."""
    assert told(history(10)).beyond == 0
    assert told(history(12)).beyond == 2
    assert told(history(12, first=31)).first_kept == 33


def test_a_snapshot_has_an_age_from_the_commit_after_it() -> None:
    """Until then it was the newest, and a reader may have begun with it."""
    found = told(history(12), least=1)
    assert (found.beyond, found.first_kept) == (5, 6)
    assert found.next_at == NOW + 10 * MINUTE
    assert told(history(12), least=1, now=NOW + 10 * MINUTE).beyond == 6


def test_those_beyond_the_greatest_number_go_although_the_table_would_keep_their_age() -> None:
    """But none of them that is younger than the longest outage."""
    assert told(history(20), most=3, least=1, age=DAY, outage=timedelta(0)).beyond == 17
    assert told(history(20), most=3, least=1, age=DAY, outage=HOUR).beyond == 13
    assert told(history(20), least=1, age=DAY, outage=HOUR).beyond == 0


def test_the_slowest_consumer_holds_what_it_has_not_read() -> None:
    """And it is named."""
    found = told(history(20), Consumer(name="a", next=9), Consumer(name="slow", next=4))
    assert (found.beyond, found.first_kept, found.held_by) == (3, 4, "the consumer slow")
    assert told(history(20), Consumer(name="a", next=19)).held_by is None


def test_a_consumer_whose_snapshot_is_gone_holds_all() -> None:
    """Nothing is counted below zero."""
    assert told(history(20, first=30), Consumer(name="a", next=3)).beyond == 0


def test_the_last_snapshot_of_a_streaming_job_stays_until_it_is_not_restored_any_more() -> None:
    """Its earlier snapshots go. It holds what is younger, too."""
    of = history(40, jobs=[("job", 29), ("job", 30), ("old", 3), ("new", 40)])
    found = told(of, least=1)
    assert (found.first_kept, found.held_by) == (30, "the streaming job with the commit user job")
    assert found.next_at == of.snapshots[29].at + 2 * HOUR
    assert told(of, least=1, restores=HOUR).first_kept == 34


def test_the_job_that_committed_last_may_still_run() -> None:
    """So its last snapshot stays without limit, unless the owner says that no such job runs."""
    of = history(40, jobs=[("before", 5), ("job", 6)])
    assert told(of, keep_last=True).first_kept == 6
    assert told(of).first_kept == 31


@pytest.mark.parametrize(("read", "beyond"), [(1, 0), (12, 10), (20, 10)])
def test_of_what_was_not_read_the_oldest_that_was_tells(read: int, beyond: int) -> None:
    """If it is old, all before it are; if it is young, nothing is known of them."""
    assert told(history(20, read=read), least=10 if read > 1 else 1).beyond == beyond


def test_a_table_without_a_snapshot_has_nothing_to_expire() -> None:
    """And nothing changes with time."""
    assert told(History()) == Retention(beyond=0, first_kept=0, next_at=None, held_by=None)


def test_no_option_lets_a_snapshot_expire_within_the_longest_outage() -> None:
    """Neither of the table nor of the service."""
    core = core_options({"snapshot.time-retained": "1 min"}, version=3, has_key=True, key_has_partition=True)
    assert rule_of(core, CleanOptions(max_snapshot_age="0s"), PaimonTableOptions()).age == DAY
    assert rule_of(core, CleanOptions(), PaimonTableOptions(longest_outage="0s")).age == MINUTE
    assert rule_of(core, CleanOptions(), PaimonTableOptions(longest_outage="0s")).least == 10
    assert rule_of(core, CleanOptions(min_snapshots_to_keep=3), PaimonTableOptions()).least == 3


_JOBS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=10)


@given(_JOBS, st.integers(1, 60), st.integers(0, 400), st.integers(0, 400), st.integers(1, 50), st.integers(1, 50))
def test_what_must_stay_stays_whatever_the_options_are(
    jobs: list[tuple[str, int]], consumer: int, outage: int, restores: int, least: int, most: int
) -> None:
    """The last commit of each job within its term, what a consumer reads, what is young, and the newest one."""
    of = history(40, jobs=jobs)
    by = rule(age=outage * MINUTE, outage=outage * MINUTE, restores=restores * MINUTE, least=least, most=most)
    found = beyond_retention(
        of, References(consumers=(Consumer(name="c", next=consumer),)), commit_users(of.snapshots), by, NOW
    )
    gone = [one for one in of.snapshots if one.id < found.first_kept]
    assert len(gone) == found.beyond <= max(0, 40 - least)
    assert all(one.id < consumer for one in gone)
    assert all(of.snapshots[one.id].at <= NOW - by.outage for one in gone)
    for user in commit_users(of.snapshots):
        if user.is_streaming and user.newest.at > NOW - by.restores:
            assert user.newest not in gone
