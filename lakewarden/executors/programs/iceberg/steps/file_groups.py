"""What Iceberg's planner would rewrite, and which of it a run takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakewarden.executors.contract import Step
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.looks import Looks
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, key_of
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, Thresholds, choose, file_groups, planner_options
from lakewarden.planners.formats.iceberg.rewriting.outputs import expected_files, largest_output, split_size
from lakewarden.planners.model.errors import TemporaryError

_ANY_NUMBER = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileGroup:
    """Data files that are rewritten together: what our own reading of the manifests says of them, and the
    `org.apache.iceberg.FileScanTask` of each. Each group is equal to itself alone.
    """

    known: Group
    tasks: Mapping[int, Any]
    files: tuple[LiveFile, ...]

    def left_with(self, known: Group) -> FileGroup:
        """Return the group of those of its files that are `known`."""
        return replace(self, known=known, files=tuple(file for file in self.files if file.key in known.keys))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MadeGroup:
    """A file group as Iceberg's rewriters take it: `java` is an `org.apache.iceberg.actions.RewriteFileGroup`."""

    java: Any
    known: Group


def planned_groups(
    table: OpenTable, rules: Thresholds, looks: Looks, metadata: TableMetadata, *, keeps: Collection[int]
) -> Sequence[FileGroup]:
    """Return what Iceberg's planner finds worth a rewrite in the snapshot that was looked at last, the files of the
    specs that are kept by themselves.

    Raises TemporaryError where it names a file that our own reading does not know.
    """
    with translated(Step.PLAN):
        if table.java.currentSnapshot() is None:
            return ()
        planner = table.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(table.java)
        whole = replace(rules, group_bytes=_ANY_NUMBER, group_files=_ANY_NUMBER)  # what goes together is for us to say
        planner.init(table.java_map(planner_options(whole)))
        groups = each(planner.plan().groups())
        named = {str(task.file().location()): task for group in groups for task in each(group.fileScanTasks())}
    tasks = {key_of(path): task for path, task in named.items()}
    files = looks.files(tasks.keys())
    for path in named:
        if key_of(path) not in files:
            raise TemporaryError(f"Iceberg's planner names {path}, which is in no manifest that we read")
    found = file_groups((*files.values(), *looks.deletes()), metadata, rules, keeps=keeps)
    return [FileGroup(known=one, tasks=tasks, files=tuple(files[key] for key in one.keys)) for one in found]


def taken(groups: Iterable[FileGroup], avoided: Iterable[str], options: RewriteOptions) -> Sequence[FileGroup]:
    """Return the groups that one run takes: none in an avoided partition, and no more than `options` allow."""
    by_keys = {group.known.keys: group for group in groups}
    known = [group.known for group in by_keys.values()]
    choice = choose(known, avoided, max_files=options.max_files, max_bytes=options.max_bytes)
    return [by_keys[group.keys] for group in choice.takes]


def made(table: OpenTable, group: FileGroup, rules: Thresholds) -> MadeGroup:
    """Return a group as Iceberg's planner would have made it."""
    jvm, size = table.jvm, group.known.bytes
    with translated(Step.PLAN):
        tasks = jvm.java.util.ArrayList()
        for key in group.known.keys:
            tasks.add(group.tasks[key])
        info = jvm.org.apache.iceberg.actions.ImmutableRewriteDataFiles.FileGroupInfo.builder()
        info = info.globalIndex(1).partitionIndex(1).partition(tasks.get(0).file().partition()).build()
        java = jvm.org.apache.iceberg.actions.RewriteFileGroup(
            info,
            tasks,
            group.known.spec,
            largest_output(rules),
            split_size(size, rules),
            expected_files(size, rules),
        )
    return MadeGroup(java=java, known=group.known)


def each(java_iterable: Any) -> Iterator[Any]:
    """Yield what a `java.lang.Iterable` has."""
    found = java_iterable.iterator()
    while found.hasNext():
        yield found.next()
