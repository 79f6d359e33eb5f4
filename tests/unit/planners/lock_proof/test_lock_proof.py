"""The evidence about a table's writers and its lock, observation by observation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.planners.lock_proof import (
    AFTER_A_COMMIT_WITHOUT,
    FROM_ONE_WRITER,
    FROM_SEVERAL_WRITERS,
    LIVE_FOR,
    Evidence,
    ProofState,
    at_rest,
    judged,
    resumed,
    summary,
    unproved,
)
from lakewarden.planners.model.instant import InstantKind, RunId, Service, State, Timeline
from lakewarden.planners.model.proof import LockReading, LockSample
from lakewarden.planners.model.view import TableView
from tests.support.values import NOW, a_view, an_instant

LOCK = "/hudi/orders of ZooKeeper zk:2181"
LONG_AGO = NOW - timedelta(days=9)


def counted(taken: int, **news: Any) -> LockSample:
    """Return a lock that was released so often."""
    return LockSample(**{"number": "7", "since": LONG_AGO, "mark": str(taken), "taken": taken, **news})


def seen(
    *commits: str, before: LockSample, after: LockSample | None = None, ago: timedelta = timedelta(0)
) -> TableView:
    """Return a table with these commits, and its lock before and after the observation."""
    look = LockReading(name=LOCK, before=before, after=after or before)
    return a_view(*(an_instant(time=one, completed_at=NOW - ago) for one in commits), lock=look)


def learned(
    view: TableView, known: Evidence | None = None, *, ours_before: bool = False, busy: bool = False
) -> Evidence:
    """Return the evidence after an observation."""
    assert view.lock is not None
    return judged(known, view.lock, view, ours_before=ours_before, busy=busy)


def witnessed(number: int, known: Evidence | None = None, *, first: int = 1) -> Evidence:
    """Return the evidence after so many commits under the lock, each alone between two observations."""
    commits = [f"{n:08}" for n in range(first)]
    known = learned(seen(*commits, before=counted(first)), known)
    for n in range(first, first + number):
        commits.append(f"{n:08}")
        known = learned(seen(*commits, before=counted(n + 1)), known)
    return known


def test_commits_of_live_writers_under_the_lock_prove_it() -> None:
    """The policy says how many are needed. Until then nothing runs, and the reason has the count."""
    not_yet, proved = witnessed(FROM_ONE_WRITER - 1), witnessed(FROM_ONE_WRITER)

    blocked = unproved(not_yet, seen("00000001", before=counted(1)))
    assert blocked is not None
    assert f"{FROM_ONE_WRITER - 1} of {FROM_ONE_WRITER} commits were seen under it" in blocked.reason
    assert proved.verdict is ProofState.PROVED
    assert unproved(proved, seen("00000001", before=counted(1))) is None
    assert "3 commits of writers were seen under it" in summary(proved)


def test_a_commit_while_the_lock_was_not_taken_is_a_commit_without_it() -> None:
    """The reason names the commit, the lock and the remedy, both before our first commit and after a thousand."""
    proved = witnessed(FROM_ONE_WRITER)
    commits = [f"{n:08}" for n in range(5)]

    found = learned(seen(*commits, before=counted(FROM_ONE_WRITER + 1)), proved)

    assert found.verdict is ProofState.DISPROVED
    blocked = unproved(found, seen(*commits, before=counted(4)))
    assert blocked is not None
    assert LOCK in blocked.reason
    assert "commit 00000004 was made without it" in blocked.reason
    assert "writer-options" in (blocked.remedy or "")


def test_what_was_completed_before_as_something_else_is_no_commit_without_the_lock() -> None:
    """Archiving takes the request of a log compaction away first. It was then taken for a write without the lock (run:
    three times in 25 minutes beside two good writers, nothing was done on their table for minutes).
    """
    proved = witnessed(FROM_ONE_WRITER)
    view = seen(*(f"{n:08}" for n in range(4)), before=counted(FROM_ONE_WRITER + 1))
    ours = an_instant(time="00000009", completed_at=NOW, stands_for=Service.LOG_COMPACTION)
    before = learned(replace(view, timeline=Timeline(instants=(*view.timeline.instants, ours))), proved)

    half = replace(ours, stands_for=InstantKind.WRITE)
    after = learned(replace(view, timeline=Timeline(instants=(*view.timeline.instants, half))), before)

    assert after.verdict is ProofState.PROVED


def test_of_two_writers_the_one_with_another_key_is_found() -> None:
    """There are two commits, and the lock was released once. So one commit was made without it."""
    first = learned(seen("00000001", before=counted(3)))

    found = learned(seen("00000001", "00000002", "00000003", before=counted(4)), first)

    assert found.verdict is ProofState.DISPROVED


def test_a_commit_that_is_seen_before_its_lock_is_let_go_counts_when_it_is() -> None:
    """Writers of releases before 1.1 hold the lock on for a while, and are observed four times a second. None of their
    commits was ever counted.
    """
    known = learned(seen("00000000", before=counted(1)))
    commits = ["00000000"]
    for n in range(1, FROM_ONE_WRITER + 1):
        commits.append(f"{n:08}")
        for _ in range(3):
            known = learned(seen(*commits, before=counted(n, held=True)), known)
        assert known.witnessed == n - 1
        known = learned(seen(*commits, before=counted(n + 1)), known)
        assert known.witnessed == n
    assert known.verdict is ProofState.PROVED


def test_a_commit_beside_a_lock_that_is_held_for_ever_proves_nothing() -> None:
    """A writer with another key commits while a third client holds the lock. No commit of it is counted, and the second
    one proves the lock wrong.
    """
    known = learned(seen("00000000", before=counted(1, held=True)))
    known = learned(seen("00000000", "00000001", before=counted(1, held=True)), known)
    assert (known.verdict, known.witnessed) == (ProofState.UNKNOWN, 0)
    known = learned(seen("00000000", "00000001", "00000002", before=counted(1, held=True)), known)
    assert known.verdict is ProofState.DISPROVED


def test_several_writers_are_watched_for_longer() -> None:
    """One of them may take another lock than the others."""
    write = an_instant(time="00000090", state=State.INFLIGHT)
    other = an_instant(time="00000091", state=State.INFLIGHT)
    look = LockReading(name=LOCK, before=counted(1), after=counted(1))
    first = learned(a_view(an_instant(time="00000000", completed_at=NOW), write, other, lock=look))

    assert witnessed(FROM_SEVERAL_WRITERS - 1, first).verdict is ProofState.UNKNOWN
    assert witnessed(FROM_SEVERAL_WRITERS, first).verdict is ProofState.PROVED


@pytest.mark.parametrize("failed", [{"stopped_at": NOW}, {"guarded_until": NOW - timedelta(seconds=1)}])
def test_a_write_that_has_failed_makes_no_second_writer(failed: dict[str, Any]) -> None:
    """Its writer has begun the next one. A table with one writer was watched for ten commits because one had failed."""
    dead = an_instant(time="00000090", state=State.INFLIGHT, **failed)
    write = an_instant(time="00000091", state=State.INFLIGHT)
    look = LockReading(name=LOCK, before=counted(1), after=counted(1))
    first = learned(a_view(an_instant(time="00000000", completed_at=NOW), dead, write, lock=look))

    assert witnessed(FROM_ONE_WRITER, first).verdict is ProofState.PROVED


def test_after_a_commit_without_the_lock_much_more_is_asked_or_a_persons_word() -> None:
    """The writers that hold the lock must not hide the one that does not."""
    commits = [f"{n:08}" for n in range(2)]
    against = learned(seen(*commits, before=counted(1)), learned(seen(commits[0], before=counted(1))))
    assert against.verdict is ProofState.DISPROVED

    assert witnessed(AFTER_A_COMMIT_WITHOUT - 1, against, first=2).verdict is ProofState.DISPROVED
    assert witnessed(AFTER_A_COMMIT_WITHOUT, against, first=2).verdict is ProofState.PROVED
    assert witnessed(FROM_ONE_WRITER, resumed(against), first=2).verdict is ProofState.PROVED
    assert resumed(against).verdict is ProofState.UNKNOWN


@pytest.mark.parametrize("busy_at", ["the look before", "the look after"])
def test_what_our_own_runs_may_have_taken_proves_nothing(busy_at: str) -> None:
    """Only between two observations without a run of ours is it known that a writer took the lock."""
    first = learned(seen("00000001", before=counted(1)), busy=busy_at == "the look before")
    second = learned(seen("00000001", "00000002", before=counted(2)), first, busy=busy_at == "the look after")

    assert second.witnessed == 0


def test_a_quiet_table_is_proved_by_what_its_lock_shows_of_the_past() -> None:
    """If the lock was taken for every commit since it was created, a writer that commits once a day need not be waited
    for.
    """
    view = seen("00000001", "00000002", before=counted(6), ago=LIVE_FOR)

    assert learned(view).verdict is ProofState.PROVED
    assert learned(view, ours_before=True).verdict is ProofState.UNKNOWN
    assert learned(seen("00000001", before=counted(6), ago=timedelta(0))).verdict is ProofState.UNKNOWN
    assert learned(seen("00000001", "00000002", before=counted(1), ago=LIVE_FOR)).verdict is ProofState.UNKNOWN
    younger = counted(6, since=NOW)
    assert learned(seen("00000001", before=younger, ago=LIVE_FOR)).verdict is ProofState.UNKNOWN


@pytest.mark.parametrize("heartbeat", [NOW - timedelta(minutes=1), None])
def test_what_a_dead_writer_left_does_not_keep_a_quiet_table_unproved(heartbeat: Any) -> None:
    """Otherwise the service that rolls it back could never run."""
    dead = an_instant(
        time="00000009", state=State.INFLIGHT, guarded_until=heartbeat, requested_at=NOW - timedelta(days=2)
    )
    look = LockReading(name=LOCK, before=counted(6), after=counted(6))
    view = a_view(an_instant(completed_at=NOW - timedelta(days=2)), dead, lock=look)

    assert learned(view).verdict is ProofState.PROVED
    alive = replace(dead, guarded_until=NOW + timedelta(minutes=1))
    assert (
        learned(a_view(an_instant(completed_at=NOW - timedelta(days=2)), alive, lock=look)).verdict
        is ProofState.UNKNOWN
    )


def test_a_writer_that_is_silent_for_several_of_its_intervals_has_gone() -> None:
    """The table of a nightly job is not held back until the next night. A writer of every second is not waited for for
    minutes.
    """
    view = seen("00000001", before=counted(6), ago=timedelta(seconds=40))
    quick = replace(view, writers=replace(view.writers, usual_interval=timedelta(seconds=2)))
    slow = replace(view, writers=replace(view.writers, usual_interval=timedelta(minutes=1)))

    assert learned(quick).verdict is ProofState.PROVED
    assert learned(slow).verdict is ProofState.UNKNOWN
    blocked = unproved(learned(slow), slow)
    assert blocked is not None
    assert blocked.again_at is not None
    gone = at_rest(learned(slow), slow, ours_before=False, now=blocked.again_at)
    assert gone.verdict is ProofState.PROVED


def test_a_lock_that_was_never_taken_holds_everything_back() -> None:
    """A misspelled key on either side looks like this."""
    view = seen("00000001", before=LockSample(), ago=LIVE_FOR)
    blocked = unproved(learned(view), view)

    assert blocked is not None
    assert "it was never taken" in blocked.reason
    assert "lock_proof: trusted" in (blocked.remedy or "")


def test_a_table_without_a_writer_in_sight_is_not_held_back() -> None:
    """No writer could be harmed. The first writer is judged by its first commits."""
    ours = an_instant(time="00000001", stands_for=Service.TTL, author=RunId("r1"))
    look = LockReading(name=LOCK, before=LockSample(), after=LockSample())

    for view in (
        a_view(lock=look),
        a_view(ours, lock=look),
        a_view(an_instant(stands_for=InstantKind.SAVEPOINT), lock=look),
    ):
        assert unproved(learned(view), view) is None
    write = a_view(an_instant(state=State.INFLIGHT), lock=look)
    assert unproved(learned(write), write) is not None


def test_a_lock_service_that_does_not_answer_takes_no_proof_away_and_gives_none() -> None:
    """The evidence stays as it was, with the error. The next observation is compared with the last one that saw the
    lock.
    """
    away = LockReading(name=LOCK, failure="ZooKeeper at zk:2181 does not answer")
    view = a_view(an_instant(completed_at=NOW), lock=away)
    nothing = judged(None, away, view, ours_before=False, busy=False)
    blocked = unproved(nothing, view)
    assert blocked is not None
    assert "does not answer" in blocked.reason

    proved = judged(witnessed(FROM_ONE_WRITER), away, view, ours_before=False, busy=False)
    assert proved.verdict is ProofState.PROVED
    commits = [f"{n:08}" for n in range(5)]
    assert learned(seen(*commits, before=counted(4)), proved).verdict is ProofState.DISPROVED


@pytest.mark.parametrize("after", [counted(0, number="8"), LockSample(), counted(2)])
def test_a_lock_that_was_lost_or_made_anew_is_no_evidence(after: LockSample) -> None:
    """A ZooKeeper that was set up again has not counted the past. This is evidence neither for nor against a writer."""
    first = learned(seen("00000001", before=counted(3)))

    found = learned(seen("00000001", "00000002", before=after), first)

    assert (found.verdict, found.witnessed) == (ProofState.UNKNOWN, 0)


def test_another_lock_in_the_options_is_judged_anew() -> None:
    """The old evidence is about the lock that was configured then."""
    proved = witnessed(FROM_ONE_WRITER)
    view = seen("00000001", before=counted(1))
    assert view.lock is not None

    assert learned(replace(view, lock=replace(view.lock, name="another")), proved).verdict is ProofState.UNKNOWN


def test_a_mark_within_the_tick_of_a_clock_is_no_evidence_against_a_writer() -> None:
    """A folder's time may miss that a file came and went in the same tick."""
    young = LockSample(number="f", mark="m", used_at=NOW)
    old = LockSample(number="f", mark="m", used_at=NOW - timedelta(seconds=5))

    for lock, verdict in ((young, ProofState.UNKNOWN), (old, ProofState.DISPROVED)):
        first = learned(seen("00000001", before=lock), ours_before=True)
        assert learned(seen("00000001", "00000002", before=lock), first).verdict is verdict
