"""Snapshots as a timeline: each is an instant that was completed in the moment in which it was committed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.model.instant import Deed, Instant, RunId, Service, State
from lakewarden.planners.model.timeline import Timeline

RUN_ID = "lakewarden.run-id"
"""The key in the summary of a snapshot of ours: the run that committed it."""

SERVICE = "lakewarden.service"
"""The key beside it: the service."""

PART = "lakewarden.part"
"""The key beside it that says `more` where the run goes on to commit more."""

MORE = "more"

MOST = 1000
"""So many instants are shown; a table may have fifty thousand snapshots, and each look shows them all again."""

_OF_FILES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


def timeline_of(metadata: TableMetadata, plans: Iterable[Instant] = ()) -> Timeline:
    """Return the table's snapshots, and our `plans` beside it, in the order of their times. Of a long history the
    newest are shown, and the newest of ours: MOST of each.

    What main's head does not descend from (other branches, what was rolled back, what was staged) is neither a write
    nor maintenance of the table that readers see. Snapshots leave in any order: tags and branches hold theirs back.
    """
    of_main = {one.id for one in metadata.ancestors(metadata.current)}
    committed = (instant_of(one, of_main=one.id in of_main) for one in _shown(metadata.snapshots))
    instants = sorted([*committed, *plans], key=lambda instant: instant.time)
    return Timeline(instants=tuple(instants), oldest_leave_first=False)


def _shown(snapshots: Sequence[Snapshot]) -> Iterable[Snapshot]:
    """Return the snapshots of which the timeline tells: those of ours end our runs."""
    if len(snapshots) <= MOST:
        return snapshots
    oldest_first = sorted(snapshots, key=attrgetter("at"))
    ours = [one for one in oldest_first[:-MOST] if _run_of(one) is not None]
    return (*ours[-MOST:], *oldest_first[-MOST:])


def _run_of(snapshot: Snapshot) -> str | None:
    return snapshot.summary.get(RUN_ID) if snapshot.operation == "replace" else None


def time_of(at: datetime, name: int | str) -> str:
    """Return an instant's time: milliseconds since 1970, which sort as text, and what tells it from all others."""
    return f"{round(at.timestamp() * 1000):013d}-{name}"


def writes_of(metadata: TableMetadata) -> list[Snapshot]:
    """Return what was written to main, the newest first."""
    return [one for one in metadata.ancestors(metadata.current) if one.operation != "replace"]


def stands_for(snapshot: Snapshot) -> Service | Deed:
    """Return what a snapshot of main did. `replace` changes no row: ours says which service it was; others' were a
    compaction if files changed, and touched manifests alone if not.
    """
    if snapshot.operation != "replace":
        return Deed.WRITE
    ours = _SERVICES.get(snapshot.summary.get(SERVICE, ""))
    if ours is not None and RUN_ID in snapshot.summary:
        return ours
    return Service.COMPACTION if any(map(snapshot.count, _OF_FILES)) else Service.ARCHIVE


_SERVICES: Mapping[str, Service] = {service.value: service for service in Service}


def instant_of(snapshot: Snapshot, *, of_main: bool) -> Instant:
    """Return what the timeline shows of a snapshot, which main's head descends from or not."""
    time, run = time_of(snapshot.at, snapshot.id), _run_of(snapshot)
    return Instant(
        time=time,
        action=sys.intern(snapshot.operation),
        stands_for=stands_for(snapshot) if of_main else Deed.OTHER,
        state=State.COMPLETED,
        requested_at=snapshot.at,
        completed_time=time,
        completed_at=snapshot.at,
        author=None if run is None else RunId(run),
        partial=run is not None and snapshot.summary.get(PART) == MORE,
    )
