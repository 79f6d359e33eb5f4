"""Whether a table's writers hold the lock that its options name. Pure.

A writer completes its commit while it holds the lock, and lets go of it afterwards. So between two looks the lock must
have been let go of at least once for each commit that was completed between them. Fewer times, and a commit was made
without it: that is certain, whoever else took it. More often proves something only where nobody of ours was at it,
and only for a commit that was alone between the looks: what is told of a lock is that it was taken, not by whom.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Deed, Instant
from lakewarden.planners.model.lock import LockLook, LockSight
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView

FROM_ONE_WRITER = 3
"""So many commits must be seen under the lock where one writer is seen at a time."""

FROM_SEVERAL_WRITERS = 10
"""So many where several writers are: one of them may have another lock than the others."""

AFTER_A_COMMIT_WITHOUT = 30
"""So many after a commit was seen without it. A person who has mended the writers resumes the table instead."""

LIVE_FOR = timedelta(minutes=10)
"""A writer that has committed within this time is one to watch, unless it was silent for several of its usual
intervals: then what the lock shows of the past counts."""

_FORGOTTEN_AFTER = timedelta(days=1)
"""A write without a heartbeat that is older is nobody's who could be seen doing anything."""

_SILENT_INTERVALS = 5
_SILENT_AT_LEAST = timedelta(seconds=30)

_TICK = timedelta(seconds=2)

_CLOCKS_APART = timedelta(minutes=1)
"""A lock service, a writer and a storage each have a clock."""


class Verdict(StrEnum):
    """What is known of a table's writers and its lock."""

    UNKNOWN = "not yet known"
    PROVED = "proved"
    DISPROVED = "disproved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """Where the next look's comparison starts: the lock before a look, and all that was completed by it, whatever it
    stood for: what is half archived may look like something else. `disturbed`: we may have taken the lock since.
    """

    sight: LockSight
    completed: frozenset[str]
    disturbed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was seen so far of the `lock`: `witnessed` commits since the last one that was made without it, `without`,
    seen at `seen_at`. `several`: more than one write was in flight at a time. `remark` is what a person should know
    while nothing is proved. `since` is of this process's life; the rest survives it.
    """

    lock: str
    verdict: Verdict = Verdict.UNKNOWN
    witnessed: int = 0
    several: bool = False
    without: str | None = None
    seen_at: datetime | None = None
    remark: str = ""
    since: Since | None = field(default=None, compare=False)

    @property
    def needed(self) -> int:
        """How many commits have to be seen under the lock before it is proved."""
        if self.without is not None:
            return AFTER_A_COMMIT_WITHOUT
        return FROM_SEVERAL_WRITERS if self.several else FROM_ONE_WRITER


def judged(known: Evidence | None, look: LockLook, view: TableView, *, ours_before: bool, busy: bool) -> Evidence:
    """Return what is known of the lock after one more look at its table.

    `ours_before`: a run of ours may have taken the lock before this life of ours; `busy`: one may have since the last
    look was judged. Of a look at a table that could not be read whole, or at a lock that could not, nothing is
    learned: the next one is compared with the one before.
    """
    evidence = known if known is not None and known.lock == look.name else Evidence(lock=look.name)
    if look.before is None or look.after is None:
        return replace(_passed_over(evidence, busy=busy), remark=look.trouble or "")
    if view.faults:
        return _passed_over(evidence, busy=busy)
    commits = writers_commits(view.timeline)
    evidence = replace(
        evidence,
        several=evidence.several or _several_at_work(view),
        remark="" if look.after.number else "nobody has ever taken it, or it was lost",
    )
    evidence = at_rest(evidence, view, ours_before=ours_before, now=view.observed_at)
    if evidence.since is not None:
        since = replace(evidence.since, disturbed=evidence.since.disturbed or busy)
        new = commits.keys() - since.completed
        if _is_yet_to_be_let_go(since, look.after, new, view.observed_at):
            return replace(evidence, since=since)
        evidence = _between(evidence, since, look.after, new, view.observed_at) if new else evidence
    completed = frozenset(one.time for one in view.timeline.instants if not one.pending)
    return replace(evidence, since=Since(sight=look.before, completed=completed, disturbed=busy))


def writers_commits(timeline: Timeline) -> dict[str, Instant]:
    """Return the completed writes that are none of ours, by their times."""
    done = (one for one in timeline.instants if one.stands_for is Deed.WRITE and not one.pending)
    return {one.time: one for one in done if one.author is None}


def resumed(evidence: Evidence) -> Evidence:
    """Return the evidence where a person says that the writers were mended: what was proved stays."""
    if evidence.verdict is Verdict.PROVED:
        return evidence
    return replace(evidence, verdict=Verdict.UNKNOWN, witnessed=0, without=None, seen_at=None)


def at_rest(evidence: Evidence, view: TableView, *, ours_before: bool, now: datetime) -> Evidence:
    """Return what is known once nobody is there any more to be seen doing it: then what the lock shows of the past
    proves it, where none of it was ours.
    """
    lock = None if view.lock is None else view.lock.after
    if evidence.verdict is not Verdict.UNKNOWN or lock is None or ours_before or is_live(view, now):
        return evidence
    covered = _covers(lock, writers_commits(view.timeline))
    return replace(evidence, verdict=Verdict.PROVED) if covered else evidence


def is_live(view: TableView, now: datetime) -> bool:
    """Whether somebody is writing to the table, as far as its timeline tells."""
    quiet_at = _quiet_at(view)
    writes = view.timeline.writes_in_flight()
    return any(_may_go_on(write, now) for write in writes) or (quiet_at is not None and now < quiet_at)


def _several_at_work(view: TableView) -> bool:
    """Whether more than one write is under way. One that has failed is the past of a writer that writes another."""
    writes = view.timeline.writes_in_flight()
    return sum(write.stopped_at is None and _may_go_on(write, view.observed_at) for write in writes) > 1


def _may_go_on(write: Instant, now: datetime) -> bool:
    """Whether a write's author may still be there. A dead one must not keep the service that rolls it back away."""
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


def unproved(evidence: Evidence, view: TableView) -> Blocked | None:
    """Return why nothing may run on the table; None where it may.

    A table that no writer has written to in sight is no danger: its first writers are judged by their first commits.
    """
    if evidence.verdict is Verdict.PROVED:
        return None
    if not writers_commits(view.timeline) and not view.timeline.writes_in_flight():
        return None
    match evidence.verdict:
        case Verdict.DISPROVED:
            return Blocked(
                reason=f"the table's writers use another lock than {evidence.lock}, or none: commit {evidence.without} "
                "was made while nobody took it",
                remedy="give every writer the options of `lakewarden writer-options`, or name here the lock that they "
                "use; then resume the table",
            )
        case Verdict.UNKNOWN:
            seen = f"{evidence.witnessed} of {evidence.needed} commits were seen under it"
            return Blocked(
                reason=f"not yet known whether the table's writers use the lock {evidence.lock}: "
                f"{evidence.remark or seen}",
                remedy="nothing runs until the writers' next commits are seen under it; if it must not wait, and you "
                "know that every writer takes this very lock, set lock_proof: trusted (docs/writers.md)",
                again_at=_quiet_at(view),
            )
        case _:
            assert_never(evidence.verdict)


def summary(evidence: Evidence) -> str:
    """Return, for people, what is known of the lock."""
    match evidence.verdict:
        case Verdict.PROVED:
            seen = f"{evidence.witnessed} commits of writers were seen under it" if evidence.witnessed else ""
            return f"{evidence.lock}: proved, {seen or 'it was taken for the commits before we came'}"
        case Verdict.DISPROVED:
            return f"{evidence.lock}: NOT USED by the writers, commit {evidence.without} was made without it"
        case Verdict.UNKNOWN:
            seen = f"{evidence.witnessed} of {evidence.needed} commits seen under it"
            return f"{evidence.lock}: not yet proved, {evidence.remark or seen}"
        case _:
            assert_never(evidence.verdict)


def _passed_over(evidence: Evidence, *, busy: bool) -> Evidence:
    since = evidence.since
    return replace(evidence, since=replace(since, disturbed=True)) if busy and since is not None else evidence


def _between(evidence: Evidence, since: Since, after: LockSight, new: Set[str], now: datetime) -> Evidence:
    """Judge the commits that were completed between two looks."""
    least, most = _let_go(since.sight, after, now)
    if most + (1 if after.held else 0) < len(new):
        return replace(evidence, verdict=Verdict.DISPROVED, witnessed=0, without=max(new), seen_at=now)
    if since.disturbed or len(new) > 1 or least == 0:
        return evidence
    witnessed = evidence.witnessed + 1
    proved = witnessed >= evidence.needed
    return replace(evidence, witnessed=witnessed, verdict=Verdict.PROVED if proved else evidence.verdict)


def _is_yet_to_be_let_go(since: Since, after: LockSight, new: Set[str], now: datetime) -> bool:
    """Whether a lone commit is seen while the lock is still held and was not let go of since the look before.

    It is completed under the lock, which its writer lets go of later; releases before 1.1 do much in between. So it is
    judged by the next look, or none of such a writer's commits would ever be counted.
    """
    least, most = _let_go(since.sight, after, now)
    return len(new) == 1 and after.held and least == most == 0


def _let_go(before: LockSight, after: LockSight, now: datetime) -> tuple[float, float]:
    """Return how often at least, and at most, the lock was let go of between two moments.

    A lock that was made anew, or lost, tells nothing of the one before. Nor does a mark that may miss a change within
    the tick of a clock.
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


def _covers(lock: LockSight, commits: dict[str, Instant]) -> bool:
    """Whether the lock was taken as often as the commits since it was made need it, or right at the last one."""
    if lock.taken is None:
        newest = _newest(commits)
        return lock.used_at is not None and newest is not None and lock.used_at >= newest - _CLOCKS_APART
    ends = [one.completed_at or one.requested_at for one in commits.values()]
    since = [end for end in ends if lock.since is None or end > lock.since - _CLOCKS_APART]
    return 0 < len(since) <= lock.taken


def _newest(commits: dict[str, Instant]) -> datetime | None:
    return max((one.completed_at or one.requested_at for one in commits.values()), default=None)
