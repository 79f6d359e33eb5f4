"""The file groups that Iceberg's planner would rewrite, and those that a run takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from lakewarden.executors.contract import NothingToDo
from lakewarden.executors.programs import java_errors
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.observing import RunObservations
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, key_of
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import (
    Group,
    expected_files,
    file_groups,
    largest_output,
    split_size,
)
from lakewarden.planners.formats.iceberg.rewriting.selection import Selection, Thresholds, planner_options
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.storage.content import read_ahead

_NAME_MAPPING = "schema.name-mapping.default"
_ORC_WITHOUT_IDS = "does not contain Iceberg IDs"
_HAS_AN_ID = re.compile(r'"field-id"\s*:')
_ANY_NUMBER = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileGroup:
    """Data files that are rewritten together: what the daemon's reader knows of them, and the
    `org.apache.iceberg.FileScanTask` of each. Each group is equal only to itself.
    """

    known: Group
    tasks: Mapping[int, Any]
    files: tuple[LiveFile, ...]

    def left_with(self, group: Group) -> FileGroup:
        """Return the group with only those of its files that are in `group`."""
        return replace(self, known=group, files=tuple(file for file in self.files if file.key in group.keys))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MadeGroup:
    """A file group in the form for Iceberg's rewriters. `java` is an `org.apache.iceberg.actions.RewriteFileGroup`."""

    java: Any
    known: Group


def planned_groups(
    table: OpenTable,
    rules: Thresholds,
    observations: RunObservations,
    metadata: TableMetadata,
    *,
    keeps: Collection[int],
    may: Selection,
) -> Sequence[FileGroup]:
    """Return the groups of the last observed snapshot that Iceberg's planner would rewrite, with only those files that
    a rewrite `may` take. Files of the specs in `keeps` are in groups of their own.

    Raises TemporaryError if the planner names a file that the daemon's reader does not know.
    """
    with translated(Step.PLAN):
        if table.java.currentSnapshot() is None:
            return ()
        planner = table.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(table.java)
        # Lakewarden decides which files go together
        whole = replace(rules, group_bytes=_ANY_NUMBER, group_files=_ANY_NUMBER)
        planner.init(table.java_map(planner_options(whole)))
        groups = each(planner.plan().groups())
        named = {str(task.file().location()): task for group in groups for task in each(group.fileScanTasks())}
    tasks = {key_of(path): task for path, task in named.items()}
    files = observations.files(tasks.keys())
    for path in named:
        if key_of(path) not in files:
            raise TemporaryError(f"Iceberg's planner names {path}, which is in no manifest that we read")
    live_groups = file_groups((*files.values(), *observations.deletes()), metadata, rules, keeps=keeps, may=may)
    return [FileGroup(known=group, tasks=tasks, files=tuple(files[key] for key in group.keys)) for group in live_groups]


class FieldIds:
    """Which data files have no field ids, in a table without a name mapping. A rewrite leaves them out.

    Engines read such Parquet files by position, and such ORC and Avro files by the names of today. If that is wrong, a
    rewrite would make it final. Source: Iceberg 1.11, `parquet.ReadConf`, `orc.ORC.ReadBuilder`,
    `avro.ProjectionDatumReader`; by an empty mapping no column of such a file has a metric (`ParquetUtil.fileMetrics`),
    ORC is refused (`OrcMetrics`), and the schema of Avro has no `field-id`; all run.
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._looked_at: dict[int, str] = {}
        self._unreadable: dict[int, LakewardenError] = {}

    @property
    def lacking(self) -> frozenset[int]:
        """Return the keys of the files without ids that were found."""
        return frozenset(key for key, path in self._looked_at.items() if path)

    def lack_in(self, groups: Iterable[FileGroup]) -> bool:
        """Whether files of these groups have no ids. A file that cannot be read fails its own group, when that is
        written: see `require_read`.
        """
        with translated(Step.PLAN):
            if _NAME_MAPPING in dict(self._table.java.properties()):
                return False
        tasks = {str(key): group.tasks[key] for group in groups for key in group.known.keys}
        new = [key for key in tasks if int(key) not in self._looked_at]
        read = read_ahead(new, lambda key: self._without(int(key), tasks[key]))
        self._looked_at.update((int(key), path) for key, path in read)
        return any(self._looked_at[int(key)] for key in tasks)

    def require_read(self, group: Group) -> None:
        """Raise the error of the first file of a group that could not be read for its ids."""
        for key in group.keys:
            if key in self._unreadable:
                raise self._unreadable[key]

    def _without(self, key: int, task: Any) -> str:
        """Return the path of a file without ids. Empty if it has some, or if it cannot be read."""
        path, kind = str(task.file().location()), str(task.file().format())
        try:
            with translated(Step.PLAN):
                return "" if self._has_ids(path, kind) else path
        except (TemporaryError, PermanentError) as error:
            if _ORC_WITHOUT_IDS in str(error):
                return path
            self._unreadable[key] = error
            return ""

    def _has_ids(self, path: str, kind: str) -> bool:
        iceberg = self._table.jvm.org.apache.iceberg
        file = self._table.java.io().newInputFile(path)
        if kind == "AVRO":
            read = iceberg.avro.Avro.read(file).project(self._table.java.schema()).build()
            return _HAS_AN_ID.search(str(read.getMetadata()["avro.schema"])) is not None
        kinds = {"PARQUET": iceberg.parquet.ParquetUtil.fileMetrics, "ORC": iceberg.orc.OrcMetrics.fromInputFile}
        metrics = kinds[kind](file, iceberg.MetricsConfig.getDefault(), iceberg.mapping.NameMapping.empty())
        return not metrics.recordCount() or not metrics.columnSizes().isEmpty()

    def figures(self) -> Mapping[str, str]:
        """Return what the run tells of the files that are left out."""
        return {"left_out": self._why_left_out()} if self.lacking else {}

    def _why_left_out(self) -> str:
        paths = sorted(path for path in self._looked_at.values() if path)
        with translated(Step.PLAN):
            mapping = self._table.jvm.org.apache.iceberg.mapping
            names = str(mapping.NameMappingParser.toJson(mapping.MappingUtil.create(self._table.java.schema())))
        return (
            f"{len(paths)} files have no field ids, {paths[0]} among them, and the table has no name mapping, so which "
            f"column is which is a guess: set {_NAME_MAPPING} to {' '.join(names.split())}, with the names as these "
            "files have them"
        )

    def told_with(self, reason: str) -> NothingToDo:
        """Return why a run found nothing, with the files that are left out. A property that is set is no commit, so the
        service looks again by itself. A rewrite of all files ends all the same.
        """
        if not self.lacking:
            return NothingToDo(reason=reason)
        again = timedelta(hours=1) if self._table.assignment.rewrite_all is None else None
        return NothingToDo(reason=f"{reason}; {self._why_left_out()}", again=again)


def taken(groups: Iterable[FileGroup], avoided: Iterable[str], options: RewriteOptions) -> Sequence[FileGroup]:
    """Return the groups that one run takes: none in an avoided partition, and no more than `options` allow."""
    by_keys = {group.known.keys: group for group in groups}
    candidates = [group.known for group in by_keys.values()]
    choice = choose(candidates, avoided, options)
    return [by_keys[group.keys] for group in choice.takes]


def made(table: OpenTable, group: FileGroup, rules: Thresholds) -> MadeGroup:
    """Return a group in the form that Iceberg's planner makes."""
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
    """Return the items of a `java.lang.Iterable`."""
    return java_errors.each(java_iterable.iterator())
