"""Savepoints: which commit is saved, whose a savepoint is, and which of ours have expired.

Hudi puts who made a savepoint, when, and a comment into its metadata (`HoodieSavepointMetadata`, 0.14 to 1.2). Ours are
signed there with the run that took them: what is not so signed is a person's, and is never removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import (
    MALFORMED,
    InPieces,
    Pieces,
    UnreadableError,
    first,
    present,
    read_pieces,
)
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties
from lakewarden.planners.formats.hudi.options.service_options import SavepointOptions
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Deed, Instant, RunId, Service, State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Hindrance
from lakewarden.planners.ports import Storage

USER = "lakewarden"
"""Who our savepoints say has made them (`savepointedBy`)."""

MARK = ".lakewarden/savepoint"
"""Names, below HOME, the savepoint that a run is making or removing at this moment. It is there within one hold of the
table's lock: whoever holds that and finds it sees what a dead run has left."""

_COMMENT = re.compile(rf"scheduled by Lakewarden, {re.escape(RUN_KEY)}=(\S{{1,100}})", re.ASCII)
_INSTANT = re.compile(r"\d{14,23}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Savepoint:
    """A completed savepoint of the commit `time`: who made it, and when. `run` is the run of ours that took it; None
    for everybody else's.
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
    """Return what signs a savepoint as ours."""
    return f"scheduled by Lakewarden, {RUN_KEY}={run}"


def author_of(record: Mapping[str, Any]) -> RunId | None:
    """Return the run of ours that took a savepoint, by its metadata."""
    signed = _COMMENT.fullmatch(str(record.get("comments") or ""))
    return RunId(signed[1]) if signed is not None and record.get("savepointedBy") == USER else None


@InPieces
def signature(pieces: Pieces) -> RunId | None:
    """Return the same of a completed savepoint's file."""
    return author_of(first(present(pieces), "savepointedBy", "comments"))


def read_savepoints(
    instants: Iterable[InstantFiles], properties: TableProperties, storage: Storage
) -> Sequence[Savepoint]:
    """Return the completed savepoints of a timeline, the oldest commit first. Raises TemporaryError where one cannot be
    read: then nobody knows whose it is.
    """
    return [_savepoint(one, properties, storage) for one in instants if _is_saved(one)]


def _is_saved(one: InstantFiles) -> bool:
    return one.action is Action.SAVEPOINT and one.state is State.COMPLETED


def _savepoint(one: InstantFiles, properties: TableProperties, storage: Storage) -> Savepoint:
    if one.completed is None:
        raise TemporaryError(f"savepoint {one.time} went away while it was read")
    name = one.completed.name
    try:
        pieces = read_pieces(storage, f"{properties.timeline_folder}/{name}", size=one.completed.size)
        record = first(present(pieces), "savepointedBy", "savepointedAt", "comments")
        at = datetime.fromtimestamp(int(record["savepointedAt"]) / 1000, UTC)
        return Savepoint(time=one.time, by=str(record["savepointedBy"]), at=at, run=author_of(record))
    except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
        raise TemporaryError(f"{name} cannot be read: {error}") from error


def savable(instants: Sequence[InstantFiles], *, retained: str | None) -> Savable:
    """Return the newest commit that can be saved. Pure.

    What is in flight may yet put files into the slices of commits that are younger than itself: a write its own, a
    compaction those that it merges. A savepoint of such a commit would not hold them. So a commit is saved that is
    older than everything in flight. It must not be older than what the last clean has `retained`, either: some of its
    files may be gone.
    """
    commits = [one for one in instants if one.action.completed_as in COMMITS]
    pending = next((one for one in commits if one.state is not State.COMPLETED), None)
    done = [one.time for one in commits if one.state is State.COMPLETED]
    before = [time for time in done if pending is None or time < pending.time]
    behind = "" if pending is None else f", the newest before {pending.action} {pending.time}, which is in flight"
    if not before:
        return Savable(commit=None, reason=f"there is no completed commit{behind}")
    if retained is not None and before[-1] < retained:
        return Savable(commit=None, reason=f"commit {before[-1]}{behind}, was cleaned: {retained} is the oldest left")
    return Savable(commit=before[-1], reason=f"commit {before[-1]}{behind or ', the newest'}")


def retained_since(instants: Sequence[InstantFiles], properties: TableProperties, storage: Storage) -> str | None:
    """Return from which commit on the last completed clean has left everything; None without one.

    One that does not say so (KEEP_LATEST_FILE_VERSIONS) left what the newest commit before it shows, as Hudi's own
    savepoint has it (`SavepointActionExecutor.getLastCommitRetained`). Raises TemporaryError if it cannot be read.
    """
    cleans = [one for one in instants if one.action is Action.CLEAN and one.completed is not None]
    if not cleans or cleans[-1].completed is None:
        return None
    name, key = cleans[-1].completed.name, "earliestCommitToRetain"
    try:
        pieces = read_pieces(storage, f"{properties.timeline_folder}/{name}", size=cleans[-1].completed.size)
        retained = first(pieces, key).get(key)
    except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
        raise TemporaryError(f"{name} cannot be read: {error}") from error
    if retained:
        return str(retained)
    done = [one.time for one in instants if one.action.completed_as in COMMITS and one.state is State.COMPLETED]
    return max((time for time in done if time < cleans[-1].time), default=None)


def expired(savepoints: Iterable[Savepoint], options: SavepointOptions, *, now: datetime) -> Sequence[Savepoint]:
    """Return those of our savepoints that have expired, the oldest first; the newest never has. Pure."""
    ours = sorted((one for one in savepoints if one.run is not None), key=lambda one: one.time)
    most = options.savepoints_retained
    too_many = 0 if most is None else max(0, len(ours) - most)
    return [one for place, one in enumerate(ours[:-1]) if place < too_many or now - one.at >= options.expire_after]


def left_half_way(location: str, storage: Storage) -> str | None:
    """Return the commit of a savepoint that a run of ours was at when it died, or is at now; None where there is none.
    Raises TemporaryError if the storage does not say.
    """
    try:
        said = storage.read(f"{location}/{HOME}/{MARK}", limit=64).decode(errors="replace")
    except (FileNotFoundError, PermanentError):  # larger than anything of ours
        return None
    return said if _INSTANT.fullmatch(said) else None


def in_flight(timeline: Timeline) -> Sequence[Instant]:
    """Return the savepoints that are neither complete nor gone."""
    return [one for one in timeline.instants if one.pending and one.stands_for is Deed.SAVEPOINT]


def hindrances(timeline: Timeline, *, ours: str | None, wanted: bool) -> Iterator[Hindrance]:
    """Yield what savepoints hold back, and what holds them back where they are `wanted`. `ours` is the one that a run
    of ours has left half-way: the next one takes it back.
    """
    for one in in_flight(timeline):
        if one.time == ours:
            yield Hindrance(
                services=frozenset(Service) - {Service.SAVEPOINT},
                reason=f"a run of ours is at savepoint {one.time}, or has left it half-way",
                remedy="if it has, the next run of savepoint takes it back: give the table that policy, and mode act",
            )
        else:
            yield Hindrance(
                reason=f"savepoint {one.time} is in flight",
                remedy="let the savepoint end, or remove what is left of it",
            )
    for clean in timeline.pending(Service.CLEAN) if wanted else ():
        yield Hindrance(
            services=frozenset({Service.SAVEPOINT}),
            reason=f"clean {clean.time} is pending, and goes first",
            remedy="let the clean end, or judge what it would delete if it waits for that",
        )


def notes(timeline: Timeline) -> Mapping[Service, tuple[str, ...]]:
    """Return what a person should know of the oldest savepoint."""
    saved, *commits = timeline.held_by_savepoint() or (None,)
    if saved is None:
        return {}
    whose = "a person's: remove it when nobody needs it" if saved.author is None else "ours, and expires"
    note = (
        f"savepoint {saved.time} of {saved.requested_at:%Y-%m-%d %H:%M} UTC holds {_commits(len(commits))} after it "
        f"on the timeline; it is {whose}"
    )
    return {Service.SAVEPOINT: (note,), Service.ARCHIVE: (note,)}


def _commits(number: int) -> str:
    return {0: "no commit", 1: "the one commit"}.get(number, f"the {number} commits")
