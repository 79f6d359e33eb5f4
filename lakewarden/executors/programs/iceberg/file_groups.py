"""What Iceberg's planner would rewrite, and which of it a run takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakewarden.executors.contract import Step
from lakewarden.executors.programs.iceberg.errors import translated
from lakewarden.executors.programs.iceberg.opened import OpenTable
from lakewarden.planners.formats.iceberg.digests import LiveFile, key_of
from lakewarden.planners.formats.iceberg.groups import Group, Thresholds, choose, planner_options
from lakewarden.planners.formats.iceberg.service_options import RewriteOptions
from lakewarden.planners.model.errors import TemporaryError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileGroup:
    """Data files that are rewritten together: an `org.apache.iceberg.actions.RewriteFileGroup`, and what our own
    reading of the manifests says of it. Each is equal to itself alone.
    """

    java: Any
    known: Group
    files: tuple[LiveFile, ...]


FindFiles = Callable[[Collection[int]], Mapping[int, LiveFile]]
"""Returns the files for which these keys stand, by their keys."""


def planned_groups(table: OpenTable, rules: Thresholds, find: FindFiles) -> Sequence[FileGroup]:
    """Return what Iceberg's planner finds worth a rewrite in the current snapshot, in which we `find` files.

    Raises TemporaryError where it names a file that our own reading does not know.
    """
    with translated(Step.PLAN):
        if table.java.currentSnapshot() is None:
            return ()
        planner = table.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(table.java)
        planner.init(table.java_map(planner_options(rules)))
        groups = [(group, tuple(_inputs(group))) for group in each(planner.plan().groups())]
    files = find({key_of(one.path) for _, inputs in groups for one in inputs})
    return [_file_group(group, inputs, files) for group, inputs in groups]


def taken(groups: Iterable[FileGroup], avoided: Iterable[str], options: RewriteOptions) -> Sequence[FileGroup]:
    """Return the groups that one run takes: none in an avoided partition, and no more than `options` allow."""
    by_keys = {group.known.keys: group for group in groups}
    known = [group.known for group in by_keys.values()]
    choice = choose(known, avoided, max_files=options.max_files, max_bytes=options.max_bytes)
    return [by_keys[group.keys] for group in choice.takes]


def each(java_iterable: Any) -> Iterator[Any]:
    """Yield what a `java.lang.Iterable` has."""
    found = java_iterable.iterator()
    while found.hasNext():
        yield found.next()


class _Input(NamedTuple):
    path: str
    deletes: int


def _inputs(group: Any) -> Iterator[_Input]:
    for task in each(group.fileScanTasks()):
        yield _Input(path=str(task.file().location()), deletes=int(task.deletes().size()))


def _file_group(group: Any, inputs: Sequence[_Input], files: Mapping[int, LiveFile]) -> FileGroup:
    for one in inputs:
        if key_of(one.path) not in files:
            raise TemporaryError(f"Iceberg's planner names {one.path}, which is in no manifest that we read")
    found = tuple(files[key_of(one.path)] for one in inputs)
    known = Group(
        partitions=frozenset(file.partition for file in found),
        files=len(found),
        bytes=sum(file.size for file in found),
        pieces=sum(1 + one.deletes for one in inputs),
        oldest=min(file.sequence for file in found),
        newest=max(file.sequence for file in found),
        keys=tuple(file.key for file in found),
    )
    return FileGroup(java=group, known=known, files=found)
