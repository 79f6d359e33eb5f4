"""Savepoints: which commit is saved, who made a savepoint, and which of Lakewarden's savepoints have expired.

Hudi keeps the maker, the time and a comment in a savepoint's metadata (`HoodieSavepointMetadata`, 0.14 to 1.2).
Lakewarden signs its savepoints there with the run that took them. Savepoints without that signature belong to people,
and are never removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import (
    Chunks,
    first,
    present,
    surely_read,
)
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY, retained_by_clean
from lakewarden.planners.formats.hudi.metadata.properties import HOME, TableProperties
from lakewarden.planners.formats.hudi.options.service_options import SavepointOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Timeline
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

USER = "lakewarden"
"""The maker of Lakewarden's savepoints (`savepointedBy`)."""

MARK = ".lakewarden/savepoint"
"""The file below HOME that names the savepoint which a run is making or removing now. It exists only while a run holds
the table's lock. If a run takes the lock and finds the file, a dead run has left it."""

_COMMENT = re.compile(rf"scheduled by Lakewarden, {re.escape(RUN_KEY)}=(\S{{1,100}})", re.ASCII)
_INSTANT = re.compile(r"\d{14,23}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Savepoint:
    """A completed savepoint of the commit `time`: who made it, and when. `run` is the run of Lakewarden that took it.
    None for all others.
    """

    time: str
    by: str
    at: datetime
    run: RunId | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Savable:
    """The newest commit that can be saved (None: there is none), and why it is not a newer one."""

    commit: str | None
    reason: str


def comment(run: str) -> str:
    """Return the comment that signs a savepoint of Lakewarden."""
    return f"scheduled by Lakewarden, {RUN_KEY}={run}"


def author_of(record: Mapping[str, Any]) -> RunId | None:
    """Return the run of Lakewarden that took a savepoint, by its metadata."""
    signed = _COMMENT.fullmatch(str(record.get("comments") or ""))
    return RunId(signed[1]) if signed is not None and record.get("savepointedBy") == USER else None


def signature(chunks: Chunks) -> RunId | None:
    """Return the same for a completed savepoint's file."""
    return author_of(first(present(chunks), "savepointedBy", "comments"))


def read_savepoints(
    instants: Iterable[InstantFiles], properties: TableProperties, storage: Storage
) -> Sequence[Savepoint]:
    """Return the completed savepoints of a timeline, the oldest commit first. Raises TemporaryError if one cannot be
    read: then its maker is not known.
    """
    completed = (instant for instant in instants if instant.state is State.COMPLETED)
    return [_savepoint(instant, properties, storage) for instant in completed if instant.action is Action.SAVEPOINT]


def _savepoint(instant: InstantFiles, properties: TableProperties, storage: Storage) -> Savepoint:
    if instant.completed is None:
        raise TemporaryError(f"savepoint {instant.time} disappeared while it was read")

    def decoded(chunks: Chunks) -> Savepoint:
        record = first(present(chunks), "savepointedBy", "savepointedAt", "comments")
        at = datetime.fromtimestamp(int(record["savepointedAt"]) / 1000, UTC)
        return Savepoint(time=instant.time, by=str(record["savepointedBy"]), at=at, run=author_of(record))

    return surely_read(storage, properties.timeline_folder, instant.completed, decoded)


def savable(instants: Sequence[InstantFiles], *, retained: str | None) -> Savable:
    """Return the newest commit that can be saved. Pure.

    An instant in flight may still put files into the slices of younger commits: a write its own, a compaction those
    that it merges. A savepoint of such a commit would not hold them. So the commit must be older than everything in
    flight. It must not be older than what the last clean has `retained`, either: some of its files may be gone.
    """
    commits = [instant for instant in instants if instant.action.completed_as in COMMITS]
    pending = next((commit for commit in commits if commit.state is not State.COMPLETED), None)
    done = [commit.time for commit in commits if commit.state is State.COMPLETED]
    before = [time for time in done if pending is None or time < pending.time]
    behind = "" if pending is None else f", the newest before {pending.action} {pending.time}, which is in flight"
    if not before:
        return Savable(commit=None, reason=f"there is no completed commit{behind}")
    if retained is not None and before[-1] < retained:
        return Savable(commit=None, reason=f"commit {before[-1]}{behind}, was cleaned: {retained} is the oldest left")
    return Savable(commit=before[-1], reason=f"commit {before[-1]}{behind or ', the newest'}")


def retained_since(instants: Sequence[InstantFiles], properties: TableProperties, storage: Storage) -> str | None:
    """Return the commit from which on the last completed clean has left everything. None without a clean.

    A clean that does not name it (KEEP_LATEST_FILE_VERSIONS) left what the newest commit before it shows. Hudi's own
    savepoint assumes the same (`SavepointActionExecutor.getLastCommitRetained`). Raises TemporaryError if the clean
    cannot be read.
    """
    cleans = [instant for instant in instants if instant.action is Action.CLEAN and instant.completed is not None]
    if not cleans or cleans[-1].completed is None:
        return None
    retained = surely_read(storage, properties.timeline_folder, cleans[-1].completed, retained_by_clean)
    if retained:
        return retained
    done = [
        instant.time
        for instant in instants
        if instant.action.completed_as in COMMITS and instant.state is State.COMPLETED
    ]
    return max((time for time in done if time < cleans[-1].time), default=None)


def expired(savepoints: Iterable[Savepoint], options: SavepointOptions, *, now: datetime) -> Sequence[Savepoint]:
    """Return Lakewarden's savepoints that have expired, the oldest first. The newest never expires. Pure."""
    ours = sorted(
        (savepoint for savepoint in savepoints if savepoint.run is not None), key=lambda savepoint: savepoint.time
    )
    most = options.savepoints_retained
    too_many = 0 if most is None else max(0, len(ours) - most)
    return [
        savepoint
        for place, savepoint in enumerate(ours[:-1])
        if place < too_many or now - savepoint.at >= options.expire_after
    ]


def left_half_way(location: str, storage: Storage) -> str | None:
    """Return the commit of a savepoint that a run of Lakewarden is making or removing, or was when it died. None if
    there is none. Raises TemporaryError if the storage does not answer.
    """
    try:
        text = storage.read(f"{location}/{HOME}/{MARK}", limit=64).decode(errors="replace")
    except (FileNotFoundError, PermanentError):  # Lakewarden has not written it
        return None
    return text if _INSTANT.fullmatch(text) else None


def in_flight(timeline: Timeline) -> Sequence[Instant]:
    """Return the savepoints that are neither complete nor gone."""
    return [instant for instant in timeline.instants if instant.pending and instant.stands_for is InstantKind.SAVEPOINT]


def blockers(timeline: Timeline, *, ours: str | None, wanted: bool) -> Iterator[Blocker]:
    """Yield what savepoints block, and what blocks them if they are `wanted`. `ours` is the savepoint that a run of
    Lakewarden has left unfinished. The next run undoes it.
    """
    for savepoint in in_flight(timeline):
        if savepoint.time == ours:
            yield Blocker(
                services=frozenset(Service) - {Service.SAVEPOINT},
                code="other_plan_first",
                reason=f"a run of Lakewarden is at savepoint {savepoint.time}, or has left it unfinished",
                remedy="if it is unfinished, the next run of savepoint undoes it: set that policy, and mode act",
            )
        else:
            yield Blocker(
                code="other_plan_first",
                reason=f"savepoint {savepoint.time} is in flight",
                remedy="wait until the savepoint has ended, or remove what is left of it",
            )
    for clean in timeline.pending(Service.CLEAN) if wanted else ():
        yield Blocker(
            services=frozenset({Service.SAVEPOINT}),
            code="other_plan_first",
            reason=f"clean {clean.time} is pending, and goes first",
            remedy="wait until the clean has ended, or approve its deletion if it waits for that",
        )


def notes(timeline: Timeline) -> Mapping[Service, tuple[str, ...]]:
    """Return what an operator should know of the oldest savepoint."""
    saved, *commits = timeline.held_by_savepoint() or (None,)
    if saved is None:
        return {}
    owner = "a person's: remove it when it is not needed" if saved.author is None else "Lakewarden's, and expires"
    note = (
        f"savepoint {saved.time} of {saved.requested_at:%Y-%m-%d %H:%M} UTC holds {_commits(len(commits))} after it "
        f"on the timeline; it is {owner}"
    )
    return {Service.SAVEPOINT: (note,), Service.ARCHIVE: (note,)}


def _commits(number: int) -> str:
    return {0: "no commit", 1: "the one commit"}.get(number, f"the {number} commits")
