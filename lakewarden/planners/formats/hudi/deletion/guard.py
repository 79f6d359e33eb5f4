"""The deletion guard: what a clean would delete is compared with everything that is still needed.

Hudi's own planner keeps those files too. But a plan may have been made by another version or client, or before a
plan or savepoint that was added since, and a deletion cannot be undone. So the clean program checks again,
immediately before it deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks, present, surely_read, whole_timeline
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, HudiPlan
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties, read_table_properties
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import PlanSize, State, Timeline
from lakewarden.planners.ports import FileEntry, Storage

_T = TypeVar("_T")
_NO_SIZE = PlanSize(file_groups=None, bytes=None)
_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededFiles:
    """A plan or savepoint (`compaction 2026...`, `savepoint 2026...`) that needs files to stay."""

    by: str
    files: frozenset[DataFile]


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A needed file that the clean would delete, and why it is needed."""

    file: DataFile
    reason: str


def overlaps(clean: HudiPlan, needs: Iterable[NeededFiles]) -> tuple[Overlap, ...]:
    """Return every needed file that the clean would delete, by itself or with its whole partition. Pure.

    A partition is deleted with everything below its folder. The partition `""` is the whole table.
    """
    to_delete = {DataFile(_plain(file.partition), file.name) for file in clean.files}
    folders = {_plain(partition) for partition in clean.partitions}
    conflicts = []
    for need in needs:
        for file in sorted(need.files):
            partition = _plain(file.partition)
            if DataFile(partition, file.name) in to_delete:
                conflicts.append(Overlap(file=file, reason=f"{need.by} needs it"))
            elif any(_lies_in(partition, folder) for folder in folders):
                conflicts.append(Overlap(file=file, reason=f"{need.by} needs it, and its partition would be deleted"))
    return tuple(conflicts)


def _plain(partition: str) -> str:
    return partition.strip("/")


def _lies_in(partition: str, folder: str) -> bool:
    return not folder or partition == folder or partition.startswith(f"{folder}/")


def clean_overlaps(
    location: str,
    storage: Storage,
    *,
    instant: str,
    known: Timeline | None = None,
    more: Callable[[HudiPlan], Iterable[NeededFiles]] = lambda _: (),
) -> tuple[Overlap, ...]:
    """Read the table's timeline anew and return the overlaps of its pending clean `instant`. `more` returns further
    needs, for the plan of the clean.

    Raises TemporaryError if anything that matters cannot be read whole, if an instant `known` from an earlier
    observation is left out without being gone, or if a savepoint or restore is in flight. Then nothing may be deleted.
    Raises PermanentError if the location holds no Hudi table.
    """
    timeline = _read_timeline(location, storage, known)
    clean = timeline.clean(instant)
    return overlaps(clean, (*timeline.needs(), *more(clean)))


def partitions_in_need(
    location: str, storage: Storage, partitions: Iterable[str], *, earlier_timeline: Timeline | None = None
) -> Mapping[str, str]:
    """Return the partitions that must not be deleted, each with the reason: a pending plan reads their files, or a
    savepoint holds them. Raises as `clean_overlaps` does.
    """
    timeline = _read_timeline(location, storage, earlier_timeline)
    needs = tuple(timeline.needs())
    held = {}
    for partition in partitions:
        to_delete = HudiPlan(files=frozenset(), partitions=frozenset({partition}), size=_NO_SIZE)
        for overlap in overlaps(to_delete, needs)[:1]:
            held[partition] = overlap.reason
    return held


def _read_timeline(location: str, storage: Storage, earlier_timeline: Timeline | None) -> _Timeline:
    properties = read_table_properties(location, storage)
    instants = whole_timeline(properties, storage, known=earlier_timeline)
    return _Timeline(properties=properties, storage=storage, instants=instants)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Timeline:
    """A timeline that is read whole or not at all."""

    properties: TableProperties
    storage: Storage
    instants: Sequence[InstantFiles]

    def clean(self, time: str) -> HudiPlan:
        for instant in self.instants:
            if instant.time == time and instant.action is Action.CLEAN and instant.state is not State.COMPLETED:
                plan = self._planned(instant, plans.clean_plan)
                if plan is not None:
                    return plan
        raise TemporaryError(f"clean {time} is not pending on the timeline")

    def needs(self) -> Iterator[NeededFiles]:
        for instant in self.instants:
            completed = instant.state is State.COMPLETED
            if instant.action is Action.SAVEPOINT and completed:
                yield NeededFiles(by=_who(instant), files=self._read(instant, instant.completed, _saved))
            elif instant.action in (Action.SAVEPOINT, Action.RESTORE) and not completed:
                raise TemporaryError(f"{_who(instant)} is in flight: the files that it needs are not known yet")
            elif not completed and (plan := self._plan(instant)) is not None:
                yield NeededFiles(by=_who(instant), files=plan.files)

    def _plan(self, instant: InstantFiles) -> HudiPlan | None:
        """Return the plan of a pending instant that reads files; None for writes and for plans that read none."""
        if instant.action in _COMPACTIONS:
            return self._planned(instant, plans.compaction_plan)
        if instant.action is Action.CLUSTERING:
            return self._planned(instant, plans.clustering_plan)
        maybe = instant.action is Action.REPLACECOMMIT and self.properties.layout is Layout.V1
        if maybe and (
            instant.requested is None or instant.requested.size
        ):  # a write's file may be empty, and is never missing
            return self._planned(instant, plans.clustering_plan)
        return None

    def _planned(
        self, instant: InstantFiles, decode: Callable[[Mapping[str, Any]], HudiPlan | None]
    ) -> HudiPlan | None:
        return self._read(instant, instant.requested, lambda chunks: plans.merged(chunks, decode))

    def _read(self, instant: InstantFiles, entry: FileEntry | None, what: Callable[[Chunks], _T]) -> _T:
        if entry is None:
            raise TemporaryError(f"the plan of {_who(instant)} is gone")
        folder = self.properties.timeline_folder
        return surely_read(self.storage, folder, entry, lambda chunks: what(present(chunks)))


def _saved(chunks: Chunks) -> frozenset[DataFile]:
    return frozenset(file for chunk in chunks for file in plans.savepointed_files(chunk))


def _who(instant: InstantFiles) -> str:
    return f"{instant.action} {instant.time}"
