"""Snapshots as a timeline: each is an instant that was completed in the moment in which it was committed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from lakewarden.planners.formats.paimon.metadata.signature import run_of
from lakewarden.planners.formats.paimon.metadata.snapshots import CommitKind, Snapshot
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State
from lakewarden.planners.model.timeline import Timeline

_STANDS_FOR: Mapping[CommitKind, Service | InstantKind] = {
    CommitKind.APPEND: InstantKind.WRITE,
    CommitKind.OVERWRITE: InstantKind.WRITE,
    CommitKind.COMPACT: Service.COMPACTION,
    CommitKind.ANALYZE: Service.TABLE_STATS,
}

_OURS: Mapping[CommitKind, Service] = {CommitKind.COMPACT: Service.COMPACTION, CommitKind.OVERWRITE: Service.TTL}
"""What Lakewarden commits: compactions of files or manifests, and snapshots that drop partitions."""


def timeline_of(snapshots: Iterable[Snapshot]) -> Timeline:
    """Return snapshots, the oldest first. A rollback deletes the newest: nothing follows from one that is missing."""
    return Timeline(instants=tuple(map(instant_of, snapshots)), oldest_leave_first=False)


def time_of(snapshot: int) -> str:
    """Return an instant's time: the number of the snapshot, in ten digits, which sort as text."""
    return f"{snapshot:010d}"


def instant_of(snapshot: Snapshot) -> Instant:
    """Return what the timeline shows of a snapshot."""
    time, run = time_of(snapshot.id), run_of(snapshot.user)
    stands_for = _STANDS_FOR[snapshot.kind] if run is None else _OURS.get(snapshot.kind)
    if snapshot.kind is CommitKind.COMPACT and not snapshot.is_compaction:
        stands_for = Service.ARCHIVE
    return Instant(
        time=time,
        action=sys.intern(snapshot.kind.value.lower()),
        stands_for=stands_for or _STANDS_FOR[snapshot.kind],
        state=State.COMPLETED,
        requested_at=snapshot.at,
        completed_time=time,
        completed_at=snapshot.at,
        author=run if snapshot.kind in _OURS else None,
    )
