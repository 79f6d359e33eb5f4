"""The metadata table: a merge-on-read table below `.hoodie/metadata` that Hudi keeps and compacts by itself.

Writers compact it as a part of their commits. If they cannot, it grows, and every reader becomes slower. So its backlog
is shown, and what prevents its compaction (docs/hudi.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lakewarden.planners.formats.hudi.history import CompletedInstants
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout, collapse, parse
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, file_group
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import to_utc
from lakewarden.planners.model.instant import Instant, Service, State, Timeline
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
    done = [metadatum for metadatum in metadata if metadatum.state is State.COMPLETED]
    if layout is Layout.V1 or not done:
        return []
    times, first = {metadatum.time for metadatum in done}, done[0]
    made = first.ended if first.time.startswith(_MADE) else None
    commits = (
        instant for instant in instants if instant.state is State.COMPLETED and instant.action.completed_as in COMMITS
    )
    judged = (commit for commit in commits if (commit.time >= first.time if made is None else commit.ended > made))
    return [commit.time for commit in judged if commit.time not in times]


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
            "next commit with a metadata table rebuilds it. Or, from table version 8 on and with no plan pending, "
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
        "trigger a run of it, which rebuilds the metadata table",
        services=services,
    )


def deletion_order(entries: Sequence[FileEntry], layout: Layout) -> list[str]:
    """Return the files of a timeline in an order of deletion in which no instant ever seems pending, if none is: the
    completed file of each instant comes last.
    """
    last = {State.INFLIGHT: 0, State.REQUESTED: 1, State.COMPLETED: 2}
    files = [(file, entry.name) for entry in entries if (file := parse(entry.name, layout)) is not None]
    return [name for _, name in sorted(files, key=lambda pair: (last[pair[0].state], pair[1]))]


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
    done = [instant for instant in instants if instant.state is State.COMPLETED]
    compactions = [instant for instant in done if instant.action.completed_as is Action.COMMIT]
    deltas = [instant for instant in done if instant.action.completed_as is Action.DELTACOMMIT]
    last = compactions[-1] if compactions else None
    pinned_by = _pinned_by(timeline, deltas, done, properties.layout)
    return InnerTable(
        name="metadata table",
        commits=len(deltas) if last is None else sum(delta.ended > last.time for delta in deltas),
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
    completed = {instant.time for instant in done}
    return next((i for i in pending if i.time in completed), None)


# The files that the metadata table lists, compared with the files in a table's folders. Pure.

Folders = Mapping[str, Collection[str]]
"""The names of the data files in each partition, by its path."""

_SHOWN = 20
_CHANGES = ".cdc"
"""The end of a log file of changes (`HoodieCDCUtils.CDC_LOGFILE_SUFFIX`), which no slice has."""

_WRITTEN_BY = re.compile(r"(?:\.[^/]+?_(\d{14,17})\.log\.\d+.*)|(?:[^/]+_(\d{14,17})(?:\.[A-Za-z0-9]+)?)", re.ASCII)
"""`.<file id>_<instant>.log.<number>_<token>` and `<file id>_<token>_<instant>.<suffix>` (`FSUtils`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """Which files belong to a table, by the `instants` that were completed. `appended`: the name of a log file has the
    instant of its slice, and not of its write (layout 1). `quiet`: no write is in flight, and none was rolled back.
    """

    instants: CompletedInstants
    appended: bool = False
    quiet: bool = True

    def is_part(self, name: str) -> bool:
        """Whether a file certainly belongs to the table. A file of a failed write, or of one in flight, does not."""
        match = _WRITTEN_BY.fullmatch(name)
        if match is None:
            return False
        in_log, in_base = match.groups()
        if in_log is not None and self.appended and not self.quiet:
            return False
        return self.instants.at(in_log or in_base) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """Data files that lie in the table and not in its metadata table (`unknown`), and the other way round (`gone`)."""

    unknown: frozenset[DataFile] = frozenset()
    gone: frozenset[DataFile] = frozenset()

    def partitions(self) -> list[str]:
        """Return the partitions in which there is a difference."""
        return sorted({file.partition for file in self.unknown | self.gone})

    def still(self, again: Differences) -> Differences:
        """Return the differences that both comparisons show. A file that was written or deleted between two listings is
        no difference.
        """
        return Differences(unknown=self.unknown & again.unknown, gone=self.gone & again.gone)


def differences(known: Folders, stored: Folders, committed: Committed) -> Differences:
    """Return how the metadata table (`known`) differs from the table's folders (`stored`)."""
    unknown, gone = set(), set()
    for partition in known.keys() | stored.keys():
        here, there = set(stored.get(partition, ())), set(known.get(partition, ()))
        unknown |= {DataFile(partition, name) for name in here - there if committed.is_part(name)}
        gone |= {DataFile(partition, name) for name in there - here}
    return Differences(unknown=frozenset(unknown), gone=frozenset(gone))


def left_out(
    plan: Collection[DataFile], stored: Folders, committed: Committed, *, at: str, logs_alone: bool = False
) -> frozenset[DataFile]:
    """Return the files that a plan of a rewrite, made at the instant `at`, should read and does not name. Their rows
    would be lost.

    They lie in the plan's file groups, were committed before the plan, and are newer than the group's base file. Such
    a plan is made from a metadata table that does not list them. `logs_alone`: the plan is of a log compaction, and
    names no base file; the newest one that is stored counts.
    """
    bases = _base_times(plan, appended=committed.appended)
    if logs_alone:
        lying = _stored_bases(stored, committed, at)
        bases = {group: time or lying.get(group, "") for group, time in bases.items()}
    files = set()
    for partition, names in stored.items():
        for file in (DataFile(partition, name) for name in names):
            base = bases.get(file_group(file))
            if base is not None and file not in plan and _should_be_read(file.name, base, committed, at):
                files.add(file)
    return frozenset(files)


def _base_times(plan: Collection[DataFile], *, appended: bool) -> Mapping[tuple[str, str], str]:
    """Return the instant of each file group's base file. It is empty for a group of log files alone."""
    times = dict.fromkeys(map(file_group, plan), "")
    for file in plan:
        in_log, in_base = instants_of(file.name)
        time = in_base or (in_log if appended else None)
        if time is not None:
            times[file_group(file)] = max(time, times[file_group(file)])
    return times


def _stored_bases(stored: Folders, committed: Committed, at: str) -> Mapping[tuple[str, str], str]:
    """Return the instant of the newest base file that each file group had at `at`."""
    times: dict[tuple[str, str], str] = {}
    for file in (DataFile(partition, name) for partition, names in stored.items() for name in names):
        time = instants_of(file.name)[1]
        if time is not None and (committed.instants.at(time) or at) < at:
            times[file_group(file)] = max(time, times.get(file_group(file), ""))
    return times


def _should_be_read(name: str, base: str, committed: Committed, at: str) -> bool:
    in_log, in_base = instants_of(name)
    time = in_log or in_base
    completed = None if time is None else committed.instants.at(time)
    if time is None or completed is None or completed >= at:
        return False
    if in_log is not None and committed.appended:
        return committed.quiet and time == base
    return (completed if in_log is not None else time) > base


def instants_of(name: str) -> tuple[str | None, str | None]:
    """Return the instant in the name of a log file, or that in the name of a base file."""
    match = _WRITTEN_BY.fullmatch(name)
    return (None, None) if match is None or name.endswith(_CHANGES) else (match[1], match[2])


def named(files: Collection[DataFile]) -> str:
    """Return the names of files for people, and how many more there are."""
    names = [f"{file.partition}/{file.name}".lstrip("/") for file in sorted(files)[:_SHOWN]]
    return ", ".join([*names, *([f"and {len(files) - _SHOWN} more"] if len(files) > _SHOWN else [])])
