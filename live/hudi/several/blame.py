"""Which failed commits of several writers Lakewarden has caused, and whether the daemon says the same. Pure.

Where Hudi's message names the instant that the commit lost to, that decides. Else Lakewarden has caused the failure if
an instant of its own was pending or completed during the write, or if a run of its own was under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lakewarden.demo.writers.orders import Batch
from lakewarden.service.http.schemas import RunBody
from live.hudi.several.timeline_watcher import Seen
from live.hudi.travel import time_of

_LOST = re.compile(
    r"first operation = .{0,80}?instantTime=(?P<own>\d{17}).{0,80}?"
    r"second operation = .{0,80}?instantTime=(?P<other>\d{17})"
)
"""Until 1.1 the operations are written `{actionType=..., instantTime=..., actionState=...'}`. From 1.2 on they are
written `ConcurrentOperation(actionState=..., actionType=..., instantTime=...)` (both run)."""
_MEETS_CLUSTERING = "HoodieClusteringUpdateException"
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """One failed commit: the instant that it left, if any, whether Lakewarden has caused the failure, and why."""

    writer: str
    batch: int
    begun: str
    instant: str | None
    ours: bool
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A failed write as the daemon reports it. `ours` says that it counts against the daemon itself."""

    instant: str
    ours: bool
    reason: str


def judge(failures: Mapping[str, Sequence[Batch]], seen: Sequence[Seen], runs: Sequence[RunBody]) -> list[Blame]:
    """Return the verdicts on the failed commits of each writer, in the order of their beginnings."""
    failed = sorted(((writer, batch) for writer, of in failures.items() for batch in of), key=lambda f: f[1].begun)
    left = {one.instant for one in seen if one.written and one.completed is None}
    verdicts = []
    for writer, batch in failed:
        instant = _instant_of(batch, left)
        left.discard(instant or "")
        ours, why = _fault(batch, seen, runs)
        verdicts.append(
            Blame(
                writer=writer,
                batch=batch.number,
                begun=batch.begun.isoformat(),
                instant=instant,
                ours=ours,
                why=why,
            )
        )
    return verdicts


def disagreements(verdicts: Sequence[Blame], told: Sequence[Told]) -> list[str]:
    """Return where the daemon and the verdicts disagree on the failed writes, one sentence each. Empty is agreement.

    If a commit failed before it left anything on the timeline, the daemon cannot know of it.
    """
    by_instant = {verdict.instant: verdict for verdict in verdicts if verdict.instant is not None}
    known = {each.instant: each for each in told}
    found = [
        f"the daemon does not tell of {instant}, a failed write of {by_instant[instant].writer}"
        for instant in sorted(by_instant.keys() - known.keys())
    ]
    found += [
        f"the daemon tells of {instant} as failed ({known[instant].reason}), and no writer does"
        for instant in sorted(known.keys() - by_instant.keys())
    ]
    for instant in sorted(by_instant.keys() & known.keys()):
        verdict, daemon = by_instant[instant], known[instant]
        if verdict.ours != daemon.ours:
            words = ("ours", "the writers'") if verdict.ours else ("the writers'", "ours")
            found.append(f"{instant} is {words[0]} ({verdict.why}), and {words[1]} by the daemon ({daemon.reason})")
    return found


def _instant_of(batch: Batch, left: Iterable[str]) -> str | None:
    """Return the instant that a failed commit left. Hudi's message names it, or it began during the batch."""
    lost = _LOST.search(batch.message)
    if lost is not None:
        return lost["own"]
    until = batch.answered or _NEVER
    return min((instant for instant in left if batch.begun <= time_of(instant) <= until), default=None)


def _fault(batch: Batch, seen: Sequence[Seen], runs: Sequence[RunBody]) -> tuple[bool, str]:
    until = batch.answered or _NEVER
    meanwhile = [one for one in seen if one.begun <= until and one.ended >= batch.begun]
    lost = _LOST.search(batch.message)
    if lost is not None:
        other = next((one for one in seen if one.instant == lost["other"]), None)
        if other is not None:
            return not other.written, f"it lost to {other.action} {other.instant}"
    if _MEETS_CLUSTERING in batch.message:
        plan = next((one for one in meanwhile if one.action == "clustering"), None)
        if plan is not None:
            return True, f"it met the clustering {plan.instant} that was pending"
    near = next((one for one in meanwhile if not one.written), None)
    if near is not None:
        return True, f"{near.action} {near.instant} of ours was there in its life"
    run = next((run for run in runs if _overlaps(run, batch.begun, until)), None)
    if run is not None:
        return True, f"run {run.id} of {run.service} was under way in its life"
    return False, "nothing of ours was there in its life"


def _overlaps(run: RunBody, begun: datetime, until: datetime) -> bool:
    return run.started_at is not None and run.started_at <= until and (run.ended_at or _NEVER) >= begun
