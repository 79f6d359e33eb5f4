"""Whether a table's writers hold the lock that its options name. Pure.

A writer completes its commit while it holds the lock, and releases the lock afterwards. So the lock must be released at
least once between two observations for each commit that was completed between them. If it was released less often, one
commit was certainly made without the lock. If it was released as often or more often, that is proof only in one case:
no run of Lakewarden took the lock, and one commit alone was completed between the observations. The lock shows that it
was taken, and not by which program.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Instant, InstantKind, Timeline
from lakewarden.planners.model.proof import LockReading, LockSample
from lakewarden.planners.model.view import TableView

FROM_ONE_WRITER = 3
"""How many commits must be seen under the lock if at most one write is in flight at a time."""

FROM_SEVERAL_WRITERS = 10
"""How many commits if several writes are in flight at a time: one of the writers may use another lock than the
others."""

AFTER_A_COMMIT_WITHOUT = 30
"""How many commits after a commit was seen without the lock. If an operator has corrected the writers, they resume the
table instead."""

LIVE_FOR = timedelta(minutes=10)
"""If a writer has committed within this time, its next commits are waited for. If it was silent for several of its
usual intervals, the past of the lock counts instead."""

_FORGOTTEN_AFTER = timedelta(days=1)
"""A write without a heartbeat that is older than this counts as dead."""

_SILENT_INTERVALS = 5
_SILENT_AT_LEAST = timedelta(seconds=30)

_TICK = timedelta(seconds=2)

_CLOCKS_APART = timedelta(minutes=1)
"""A lock service, a writer and a storage have different clocks."""


class ProofState(StrEnum):
    """What is known of a table's writers and its lock."""

    UNKNOWN = "not yet known"
    PROVED = "proved"
    DISPROVED = "disproved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """Where the comparison of the next observation starts: the lock before an observation, and all instants that were
    completed by then. These include instants of every kind, because a half-archived one may look like another kind.
    `disturbed`: a run of Lakewarden may have taken the lock since.
    """

    sample: LockSample
    completed: frozenset[str]
    disturbed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was seen so far of the `lock`. `witnessed` is the number of commits since the last one that was made without
    the lock. `without` is that commit, and `seen_at` is when it was seen. `several`: more than one write was in flight
    at a time. `remark` is for people while nothing is proved. `since` belongs to this process. The other fields survive
    it.
    """

    lock: str
    verdict: ProofState = ProofState.UNKNOWN
    witnessed: int = 0
    several: bool = False
    without: str | None = None
    seen_at: datetime | None = None
    remark: str = ""
    since: Since | None = field(default=None, compare=False)

    @property
    def needed(self) -> int:
        """How many commits must be seen under the lock before it is proved."""
        if self.without is not None:
            return AFTER_A_COMMIT_WITHOUT
        return FROM_SEVERAL_WRITERS if self.several else FROM_ONE_WRITER


def judged(
    last_evidence: Evidence | None, reading: LockReading, view: TableView, *, ours_before: bool, busy: bool
) -> Evidence:
    """Return what is known of the lock after one more observation of its table.

    `ours_before`: a run may have taken the lock before this daemon started. `busy`: a run may have taken it since the
    last observation was judged. If the table or the lock could not be read whole, the observation proves nothing. The
    next one is compared with the one before.
    """
    evidence = (
        last_evidence
        if last_evidence is not None and last_evidence.lock == reading.name
        else Evidence(lock=reading.name)
    )
    if reading.before is None or reading.after is None:
        return replace(_passed_over(evidence, busy=busy), remark=reading.failure or "")
    if view.faults:
        return _passed_over(evidence, busy=busy)
    commits = writers_commits(view.timeline)
    evidence = replace(
        evidence,
        several=evidence.several or _several_at_work(view),
        remark="" if reading.after.number else "it was never taken, or it was lost",
    )
    evidence = at_rest(evidence, view, ours_before=ours_before, now=view.observed_at)
    if evidence.since is not None:
        since = replace(evidence.since, disturbed=evidence.since.disturbed or busy)
        new = commits.keys() - since.completed
        if _is_yet_to_be_let_go(since, reading.after, new, view.observed_at):
            return replace(evidence, since=since)
        evidence = _between(evidence, since, reading.after, new, view.observed_at) if new else evidence
    completed = frozenset(instant.time for instant in view.timeline.instants if not instant.pending)
    return replace(evidence, since=Since(sample=reading.before, completed=completed, disturbed=busy))


def writers_commits(timeline: Timeline) -> dict[str, Instant]:
    """Return the completed writes that are not Lakewarden's, by their times."""
    done = (instant for instant in timeline.instants if instant.stands_for is InstantKind.WRITE and not instant.pending)
    return {instant.time: instant for instant in done if instant.author is None}


def resumed(evidence: Evidence) -> Evidence:
    """Return the evidence after an operator says that the writers were corrected. What was proved stays."""
    if evidence.verdict is ProofState.PROVED:
        return evidence
    return replace(evidence, verdict=ProofState.UNKNOWN, witnessed=0, without=None, seen_at=None)


def at_rest(evidence: Evidence, view: TableView, *, ours_before: bool, now: datetime) -> Evidence:
    """Return what is known if the table has no live writer. Then the past of the lock proves it, if Lakewarden never
    took the lock.
    """
    lock = None if view.lock is None else view.lock.after
    if evidence.verdict is not ProofState.UNKNOWN or lock is None or ours_before or is_live(view, now):
        return evidence
    covered = _covers(lock, writers_commits(view.timeline))
    return replace(evidence, verdict=ProofState.PROVED) if covered else evidence


def is_live(view: TableView, now: datetime) -> bool:
    """Whether a writer is writing to the table, according to its timeline."""
    quiet_at = _quiet_at(view)
    writes = view.timeline.writes_in_flight()
    return any(_may_go_on(write, now) for write in writes) or (quiet_at is not None and now < quiet_at)


def _several_at_work(view: TableView) -> bool:
    """Whether more than one write is in flight. A failed write does not count, because its writer may already write
    another one.
    """
    writes = view.timeline.writes_in_flight()
    return sum(write.stopped_at is None and _may_go_on(write, view.observed_at) for write in writes) > 1


def _may_go_on(write: Instant, now: datetime) -> bool:
    """Whether the author of a write may still be alive. A dead one must not keep the service away that rolls it
    back.
    """
    if write.guarded_until is None:
        return now - write.requested_at < _FORGOTTEN_AFTER
    return now < write.guarded_until


def _quiet_at(view: TableView) -> datetime | None:
    newest = _newest(writers_commits(view.timeline))
    if newest is None:
        return None
    usual = view.writers.usual_interval
    silence = LIVE_FOR if usual is None else max(_SILENT_AT_LEAST, min(LIVE_FOR, _SILENT_INTERVALS * usual))
    return newest + silence


def unproved(evidence: Evidence, view: TableView, table: str = "TABLE") -> Blocked | None:
    """Return why nothing may run on the table. None if it may.

    A table without a write in sample is in no danger. Its first writers are judged by their first commits.
    """
    if evidence.verdict is ProofState.PROVED:
        return None
    if not writers_commits(view.timeline) and not view.timeline.writes_in_flight():
        return None
    match evidence.verdict:
        case ProofState.DISPROVED:
            return Blocked(
                code="lock_not_shared",
                reason=f"the table's writers do not all use the lock {evidence.lock}: commit {evidence.without} "
                "was made "
                "without it",
                remedy=f"give every writer the options of `lakewarden writer-options {table}`, or configure the "
                "lock that "
                f"they use; then `lakewarden tables resume {table}`",
            )
        case ProofState.UNKNOWN:
            seen = f"{evidence.witnessed} of {evidence.needed} commits were seen under it"
            return Blocked(
                code="lock_not_proved",
                reason=f"not yet known whether the table's writers use the lock {evidence.lock}: "
                f"{evidence.remark or seen}",
                remedy="nothing runs until the writers' next commits are seen under it; if it must not wait, and you "
                "have checked that every writer takes this lock, set lock_proof: trusted (docs/writers.md)",
                again_at=_quiet_at(view),
            )
        case _:
            assert_never(evidence.verdict)


def summary(evidence: Evidence) -> str:
    """Return in words what is known of the lock."""
    match evidence.verdict:
        case ProofState.PROVED:
            seen = f"{evidence.witnessed} commits of writers were seen under it" if evidence.witnessed else ""
            return f"{evidence.lock}: proved, {seen or 'it was taken for the commits before Lakewarden started'}"
        case ProofState.DISPROVED:
            return f"{evidence.lock}: NOT USED by the writers, commit {evidence.without} was made without it"
        case ProofState.UNKNOWN:
            seen = f"{evidence.witnessed} of {evidence.needed} commits seen under it"
            return f"{evidence.lock}: not yet proved, {evidence.remark or seen}"
        case _:
            assert_never(evidence.verdict)


def _passed_over(evidence: Evidence, *, busy: bool) -> Evidence:
    since = evidence.since
    return replace(evidence, since=replace(since, disturbed=True)) if busy and since is not None else evidence


def _between(evidence: Evidence, since: Since, after: LockSample, new: Set[str], now: datetime) -> Evidence:
    """Judge the commits that were completed between two observations."""
    least, most = _let_go(since.sample, after, now)
    if most + (1 if after.held else 0) < len(new):
        return replace(evidence, verdict=ProofState.DISPROVED, witnessed=0, without=max(new), seen_at=now)
    if since.disturbed or len(new) > 1 or least == 0:
        return evidence
    witnessed = evidence.witnessed + 1
    proved = witnessed >= evidence.needed
    return replace(evidence, witnessed=witnessed, verdict=ProofState.PROVED if proved else evidence.verdict)


def _is_yet_to_be_let_go(since: Since, after: LockSample, new: Set[str], now: datetime) -> bool:
    """Whether one commit alone is seen while the lock is still held and was not released since the observation before.

    A writer completes the commit under the lock and releases the lock later. Hudi releases before 1.1 do much in
    between. So the next observation judges the commit. Else no commit of such a writer would ever count.
    """
    least, most = _let_go(since.sample, after, now)
    return len(new) == 1 and after.held and least == most == 0


def _let_go(before: LockSample, after: LockSample, now: datetime) -> tuple[float, float]:
    """Return how often the lock was released between two moments: at least, and at most.

    A lock that was created again, or lost, says nothing of the one before. A mark may miss a change within one tick of
    a clock. Then it says nothing either.
    """
    if not before.number and not after.number:
        return 0, 0
    if after.taken is not None:
        if not before.number:
            return after.taken, after.taken
        if before.number == after.number and before.taken is not None and before.taken <= after.taken:
            return after.taken - before.taken, after.taken - before.taken
        return 0, math.inf
    if not after.number or before.number not in ("", after.number):
        return 0, math.inf
    if before.mark != after.mark:
        return 1, math.inf
    return 0, 0 if after.used_at is None or now - after.used_at > _TICK else math.inf


def _covers(lock: LockSample, commits: dict[str, Instant]) -> bool:
    """Whether the lock was taken as often as the commits since its creation need it. If it shows only its mark, whether
    it was taken near the last commit.
    """
    if lock.taken is None:
        newest = _newest(commits)
        return lock.used_at is not None and newest is not None and lock.used_at >= newest - _CLOCKS_APART
    ends = [commit.completed_at or commit.requested_at for commit in commits.values()]
    since = [end for end in ends if lock.since is None or end > lock.since - _CLOCKS_APART]
    return 0 < len(since) <= lock.taken


def _newest(commits: dict[str, Instant]) -> datetime | None:
    return max((commit.completed_at or commit.requested_at for commit in commits.values()), default=None)
