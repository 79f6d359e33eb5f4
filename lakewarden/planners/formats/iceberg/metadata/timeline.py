"""Snapshots as a timeline. Each snapshot is an instant that was completed at the moment of its commit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from lakewarden.planners.decoding.json_stream import moment
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Timeline

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
    of_main = {ancestor.id for ancestor in metadata.ancestors(metadata.current)}
    committed = (instant_of(snapshot, of_main=snapshot.id in of_main) for snapshot in _on_timeline(metadata.snapshots))
    instants = sorted([*committed, *plans, *_of_statistics(metadata)], key=lambda instant: instant.time)
    return Timeline(instants=tuple(instants), oldest_leave_first=False)


def _on_timeline(snapshots: Sequence[Snapshot]) -> Iterable[Snapshot]:
    """Return the snapshots of the timeline. Lakewarden's snapshots are needed to settle its runs."""
    if len(snapshots) <= MOST:
        return snapshots
    oldest_first = sorted(snapshots, key=attrgetter("at"))
    ours = [snapshot for snapshot in oldest_first[:-MOST] if _run_of(snapshot) is not None]
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


# What sinks remember in the summaries of snapshots: how far they have committed.
#
# A sink that starts again follows the parents of its branch's head to its newest mark. If it finds none, it commits
# again what it had committed. Each sink has keys of its own, so every key counts that is not Iceberg's.

_OF_ICEBERG = re.compile(
    r"(added|removed|deleted|total)-[\w-]+|changed-partition-count|partition-summaries-included|partitions\..*"
    r"|operation|replace-partitions|source-snapshot-id|wap\.id|published-wap-id|manifests-\w+|entries-processed"
    r"|(engine|iceberg|app)-\w+|spark\.app\.id|trino_\w+|lakewarden\..*|flink\..*|spark\.sql\.streaming\..*"
)
"""Keys that no sink looks for, and the keys of the sinks that are known by what their marks say. Source: Iceberg 1.11,
`SnapshotSummary`, `EnvironmentContext`, `BaseRewriteManifests`, `WapUtil`; Trino 470, `IcebergMetadata`."""

JOB, _OPERATOR, _CHECKPOINT = "flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"
QUERY = "spark.sql.streaming.queryId"


def is_of_a_sink(key: str) -> bool:
    """Whether a key of a summary is one that Iceberg and its engines do not use."""
    return _OF_ICEBERG.fullmatch(key) is None


class SinkMark(NamedTuple):
    """A mark of one sink. `writer` is the job that wrote it, if the `kind` of sink has jobs that follow each other: a
    job that is deployed anew has another id. Else it is empty, and the mark is of no one job.
    """

    kind: str
    writer: str
    part: str = ""


def marks_in(summary: Mapping[str, str]) -> Iterator[SinkMark]:
    """Yield the marks in a snapshot's summary.

    Source: Iceberg 1.11, `flink.sink.SinkUtil`, `spark.source.SparkWrite.findLastCommittedEpochId`, and
    `connect.channel.Coordinator` (`kafka.connect.offsets.<topic>.<group>`).
    """
    if JOB in summary:
        yield SinkMark("Flink", summary[JOB], summary.get(_OPERATOR, ""))
    if QUERY in summary:
        yield SinkMark("Spark", summary[QUERY])
    yield from (SinkMark("", "", key) for key in summary if is_of_a_sink(key))


def shown(mark: SinkMark, summary: Mapping[str, str]) -> str:
    """Return the sink of a mark, for people."""
    if mark.kind == "Flink":
        operator = f", operator {mark.part}" if mark.part else ""
        checkpoint = summary.get(_CHECKPOINT)
        return f"Flink job {mark.writer}{operator}" + ("" if checkpoint is None else f" (checkpoint {checkpoint})")
    return f"the stream {mark.writer} of Spark" if mark.kind else f"the sink that writes {mark.part}"
