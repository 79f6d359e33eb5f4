"""The metadata table: a merge-on-read table below `.hoodie/metadata` that Hudi keeps and compacts by itself.

Writers compact it as a part of their commits. If they cannot, it grows, and every reader becomes slower. So its backlog
is shown, and what prevents its compaction (docs/hudi.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout, collapse, parse
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.times import to_utc
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Blocker, InnerTable
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.services import BY_HAND

_POINTER, _MANIFEST = "_version_", "manifest_"
_MADE = "0000"
"""Its first instants, from when it was made, are no times (`SOLO_COMMIT_TIMESTAMP` and the milliseconds after it)."""


def metadata_instants(folder: str, properties: TableProperties, storage: Storage) -> Sequence[InstantFiles] | None:
    """Return the instants of the metadata table. Its timeline lies in `folder`. None if there is none."""
    if not properties.has_metadata_table:
        return None
    try:
        return collapse(storage.listing(folder), properties.layout)
    except FileNotFoundError:
        return None


def unknown_commits(metadata: Sequence[InstantFiles], instants: Sequence[InstantFiles], layout: Layout) -> list[str]:
    """Return the completed commits of the table that its metadata table should know of, and does not.

    Since table version 8 a commit is completed in the metadata table before it is in the table, under the same instant
    (run). Commits that are older than the metadata table, or than its active timeline, are not judged. Nor is anything
    below version 8, where Hudi makes no metadata table while something else is pending.
    """
    done = [one for one in metadata if one.state is State.COMPLETED]
    if layout is Layout.V1 or not done:
        return []
    known, first = {one.time for one in done}, done[0]
    made = first.ended if first.time.startswith(_MADE) else None
    commits = (one for one in instants if one.state is State.COMPLETED and one.action.completed_as in COMMITS)
    judged = (one for one in commits if (one.time >= first.time if made is None else one.ended > made))
    return [one.time for one in judged if one.time not in known]


def unusable(
    metadata: Sequence[InstantFiles], instants: Sequence[InstantFiles], properties: TableProperties
) -> Blocker | None:
    """Return a blocker if the properties name a metadata table that is gone, or that lacks commits. Else None.

    It is gone after `rm -r .hoodie/metadata`. Hudi 1.2.0 then fails after it has begun: a compaction, a clean and a
    rollback are left in flight, and a writer with a metadata table fails (run). A program that drops it changes the
    properties first (`HoodieTableMetadataUtil.deleteMetadataTable`).
    """
    services = frozenset(Service) - BY_HAND
    if properties.has_metadata_table and not metadata:
        return Blocker(
            code="index_in_the_way",
            reason="the properties name a metadata table (hoodie.table.metadata.partitions), and .hoodie/metadata is "
            "gone: writers that use it fail, and so would a service",
            remedy="let one writer commit with hoodie.metadata.enable=false, which takes it out of the properties: the "
            "next commit with a metadata table makes it anew. Or, from table version 8 on and with no plan pending, "
            "add services: {metadata_rebuild: {}} and trigger a run of it",
            services=services,
        )
    unknown = unknown_commits(metadata, instants, properties.layout)
    if not unknown:
        return None
    return Blocker(
        code="index_in_the_way",
        reason=f"the metadata table lacks {len(unknown)} commits of the table, the first of them {unknown[0]}: readers "
        "and services that list files by it miss what they wrote",
        remedy="let no writer set hoodie.metadata.enable=false beside others, add services: {metadata_rebuild: {}} and "
        "trigger a run of it, which makes the metadata table anew",
        services=services,
    )


def deletion_order(entries: Sequence[FileEntry], layout: Layout) -> list[str]:
    """Return the files of a timeline in an order of deletion in which no instant ever seems pending, if none is: the
    completed file of each instant comes last.
    """
    last = {State.INFLIGHT: 0, State.REQUESTED: 1, State.COMPLETED: 2}
    found = [(file, entry.name) for entry in entries if (file := parse(entry.name, layout)) is not None]
    return [name for _, name in sorted(found, key=lambda pair: (last[pair[0].state], pair[1]))]


def archive_deletion_order(entries: Sequence[FileEntry]) -> list[str]:
    """Return the files that name archived instants in an order of deletion. At every moment the newest file that is
    left names only files that exist: first the pointer to the newest manifest (`LSMTimeline`), then the manifests, the
    newest last.
    """
    names = [entry.name for entry in entries]
    manifests = sorted((name for name in names if name.startswith(_MANIFEST)), key=lambda name: (len(name), name))
    return [*(name for name in names if name == _POINTER), *manifests]


def metadata_backlog(
    instants: Sequence[InstantFiles], properties: TableProperties, timeline: Timeline, *, zone: tzinfo
) -> InnerTable:
    """Return the delta commits of the metadata table since its last compaction."""
    done = [one for one in instants if one.state is State.COMPLETED]
    compactions = [one for one in done if one.action.completed_as is Action.COMMIT]
    deltas = [one for one in done if one.action.completed_as is Action.DELTACOMMIT]
    last = compactions[-1] if compactions else None
    pinned_by = _pinned_by(timeline, deltas, done, properties.layout)
    return InnerTable(
        name="metadata table",
        commits=len(deltas) if last is None else sum(one.ended > last.time for one in deltas),
        since=None if last is None else to_utc(last.ended, zone),
        pinned_by=None if pinned_by is None else f"{pinned_by.action} {pinned_by.time}",
    )


def _pinned_by(
    timeline: Timeline, deltas: Sequence[InstantFiles], done: Sequence[InstantFiles], layout: Layout
) -> Instant | None:
    """Return the oldest pending instant of the table that keeps Hudi from compacting its metadata table.

    Before table version 8 it is any that is not newer than the newest delta commit (`validateCompactionScheduling` of
    `HoodieBackedTableMetadataWriterTableVersionSix`). Since then it is only one that is completed in the metadata table
    already, which is compacted up to the moment before it (`compactIfNecessary` of `HoodieBackedTableMetadataWriter`).
    """
    pending = (i for i in timeline.instants if i.pending)
    if layout is Layout.V1:
        newest = deltas[-1].time if deltas else ""
        return next((i for i in pending if i.time <= newest), None)
    completed = {one.time for one in done}
    return next((i for i in pending if i.time in completed), None)
