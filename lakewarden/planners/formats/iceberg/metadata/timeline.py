"""Snapshots as a timeline. Each snapshot is an instant that was completed at the moment of its commit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from lakewarden.planners.decoding.numbers import moment
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State
from lakewarden.planners.model.timeline import Timeline

RUN_ID = "lakewarden.run-id"
"""The key in the summary of a snapshot that Lakewarden committed: the run."""

SERVICE = "lakewarden.service"
"""The key beside it: the service."""

PART = "lakewarden.part"
"""The key beside it. Its value is `more` if the run continues and commits more."""

MORE = "more"

MOST = 1000
"""How many instants are shown. A table may have 50,000 snapshots, and each observation shows them all again."""

_OF_FILES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


def timeline_of(metadata: TableMetadata, plans: Iterable[Instant] = ()) -> Timeline:
    """Return the table's snapshots and Lakewarden's `plans` beside it, in the order of their times. Of a long history
    it shows the newest snapshots and the newest of Lakewarden's: MOST of each.

    Snapshots that are no ancestors of main's head are neither a write nor maintenance of the table that readers see.
    They are on other branches, or were rolled back or staged. Snapshots do not expire in order, because tags and
    branches keep theirs.
    """
    of_main = {one.id for one in metadata.ancestors(metadata.current)}
    committed = (instant_of(one, of_main=one.id in of_main) for one in _shown(metadata.snapshots))
    instants = sorted([*committed, *plans, *_of_statistics(metadata)], key=lambda instant: instant.time)
    return Timeline(instants=tuple(instants), oldest_leave_first=False)


def _shown(snapshots: Sequence[Snapshot]) -> Iterable[Snapshot]:
    """Return the snapshots of the timeline. Lakewarden's snapshots are needed to settle its runs."""
    if len(snapshots) <= MOST:
        return snapshots
    oldest_first = sorted(snapshots, key=attrgetter("at"))
    ours = [one for one in oldest_first[:-MOST] if _run_of(one) is not None]
    return (*ours[-MOST:], *oldest_first[-MOST:])


def _run_of(snapshot: Snapshot) -> str | None:
    return snapshot.summary.get(RUN_ID) if snapshot.operation == "replace" else None


def statistics_file(snapshot: int, run: str, at: datetime) -> str:
    """Return the file name of the statistics of a snapshot that a run begins to compute at this time. Statistics add no
    snapshot. So the file name later tells which run computed them.
    """
    return f"{snapshot}-{time_of(at, f'lakewarden-{run}')}.stats"


_STATISTICS = re.compile(r"(?:.*/)?\d+-(\d{13})-lakewarden-([\w.-]+)\.stats", re.ASCII)
_OF_PARTITIONS = "partition-stats-"


def has_statistics(metadata: TableMetadata, snapshot: int) -> bool:
    """Whether a snapshot has column statistics of any author."""
    return any(not _is_of_partitions(path) for path in metadata.statistics_of.get(snapshot, ()))


def _is_of_partitions(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_OF_PARTITIONS)


def _of_statistics(metadata: TableMetadata) -> Iterator[Instant]:
    """Yield the statistics of snapshots as instants. Lakewarden's begin at the time in the file name. Others begin with
    the snapshot.
    """
    for snapshot, paths in metadata.statistics_of.items():
        for path in paths:
            if _is_of_partitions(path) or snapshot not in metadata.by_id:
                continue
            ours = _STATISTICS.fullmatch(path)
            at = metadata.by_id[snapshot].at if ours is None else moment(int(ours[1]))
            time = time_of(at, f"{Service.TABLE_STATS}-{snapshot}")
            yield Instant(
                time=time,
                action="statistics",
                stands_for=Service.TABLE_STATS,
                state=State.COMPLETED,
                requested_at=at,
                completed_time=time,
                completed_at=at,
                author=None if ours is None else RunId(ours[2]),
            )


def time_of(at: datetime, name: int | str) -> str:
    """Return an instant's time: milliseconds since 1970, which sort as text, and a name that makes it unique."""
    return f"{round(at.timestamp() * 1000):013d}-{name}"


def stands_for(snapshot: Snapshot) -> Service | InstantKind:
    """Return what a snapshot of main did. A `replace` changes no row. Lakewarden's snapshots name the service. Those of
    others count as compaction if files changed, and else as a rewrite of manifests.
    """
    if snapshot.operation != "replace":
        return InstantKind.WRITE
    ours = _SERVICES.get(snapshot.summary.get(SERVICE, ""))
    if ours is not None and RUN_ID in snapshot.summary:
        return ours
    return Service.COMPACTION if any(map(snapshot.count, _OF_FILES)) else Service.ARCHIVE


_SERVICES: Mapping[str, Service] = {service.value: service for service in Service}


def instant_of(snapshot: Snapshot, *, of_main: bool) -> Instant:
    """Return the instant for a snapshot. `of_main` says whether the snapshot is an ancestor of main's head."""
    time, run = time_of(snapshot.at, snapshot.id), _run_of(snapshot)
    return Instant(
        time=time,
        action=sys.intern(snapshot.operation),
        stands_for=stands_for(snapshot) if of_main else InstantKind.OTHER,
        state=State.COMPLETED,
        requested_at=snapshot.at,
        completed_time=time,
        completed_at=snapshot.at,
        author=None if run is None else RunId(run),
        partial=run is not None and snapshot.summary.get(PART) == MORE,
    )
