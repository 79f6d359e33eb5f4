"""The deletion guard: what a clean would delete, held against everything that still needs it.

Hudi's own planner keeps those files too. But a plan may have been made by another version or client, or before a
plan or savepoint that was added since, and deleting is the only act without return: so the clean program asks
again, immediately before it deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, Pieces, UnreadableError, present, read_pieces
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, Plan
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.metadata.whole import whole_timeline
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import PlanSize, State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.ports import FileEntry, Storage

_T = TypeVar("_T")
_NO_SIZE = PlanSize(file_groups=None, bytes=None)
_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """Somebody (`compaction 2026...`, `savepoint 2026...`) who needs files to stay."""

    by: str
    files: frozenset[DataFile]


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A file that the clean would delete although it is needed, and why."""

    file: DataFile
    reason: str


def overlaps(clean: Plan, needs: Iterable[Need]) -> tuple[Overlap, ...]:
    """Return every needed file that the clean would delete, by itself or with its whole partition. Pure.

    A partition is deleted with all that lies below its folder; the partition `""` is the whole table.
    """
    doomed = {DataFile(_plain(file.partition), file.name) for file in clean.files}
    folders = {_plain(partition) for partition in clean.partitions}
    found = []
    for need in needs:
        for file in sorted(need.files):
            partition = _plain(file.partition)
            if DataFile(partition, file.name) in doomed:
                found.append(Overlap(file=file, reason=f"{need.by} needs it"))
            elif any(_lies_in(partition, folder) for folder in folders):
                found.append(Overlap(file=file, reason=f"{need.by} needs it, and its partition would be deleted"))
    return tuple(found)


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
    more: Callable[[Plan], Iterable[Need]] = lambda _: (),
) -> tuple[Overlap, ...]:
    """Read the table's timeline anew and return the overlaps of its pending clean `instant`, also with what `more`
    finds that its plan meets.

    Raises TemporaryError if anything that matters cannot be read whole, if something `known` from an earlier look is
    left out without being gone, or a savepoint or restore is in the making:
    then nobody knows, and nothing may be deleted. PermanentError if the location holds no Hudi table.
    """
    timeline = _read_timeline(location, storage, known)
    clean = timeline.clean(instant)
    return overlaps(clean, (*timeline.needs(), *more(clean)))


def partitions_in_need(
    location: str, storage: Storage, partitions: Iterable[str], *, known: Timeline | None = None
) -> Mapping[str, str]:
    """Return those of the partitions that must not be deleted, each with the reason: a pending plan reads their
    files, or a savepoint holds them. Raises as `clean_overlaps` does.
    """
    timeline = _read_timeline(location, storage, known)
    needs = tuple(timeline.needs())
    held = {}
    for partition in partitions:
        doomed = Plan(files=frozenset(), partitions=frozenset({partition}), size=_NO_SIZE)
        for overlap in overlaps(doomed, needs)[:1]:
            held[partition] = overlap.reason
    return held


def _read_timeline(location: str, storage: Storage, known: Timeline | None) -> _Timeline:
    properties = read_table_properties(location, storage)
    instants = whole_timeline(properties, storage, known=known)
    return _Timeline(properties=properties, storage=storage, instants=instants)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Timeline:
    """A timeline that is read whole or not at all."""

    properties: TableProperties
    storage: Storage
    instants: Sequence[InstantFiles]

    def clean(self, time: str) -> Plan:
        for one in self.instants:
            if one.time == time and one.action is Action.CLEAN and one.state is not State.COMPLETED:
                return self._surely_planned(one, plans.clean_plan)
        raise TemporaryError(f"clean {time} is not pending on the timeline")

    def needs(self) -> Iterator[Need]:
        for one in self.instants:
            completed = one.state is State.COMPLETED
            if one.action is Action.SAVEPOINT and completed:
                yield Need(by=_who(one), files=self._read(one, one.completed, _saved))
            elif one.action in (Action.SAVEPOINT, Action.RESTORE) and not completed:
                raise TemporaryError(f"{_who(one)} is in flight: nobody knows yet which files it needs")
            elif not completed and (plan := self._plan(one)) is not None:
                yield Need(by=_who(one), files=plan.files)

    def _plan(self, one: InstantFiles) -> Plan | None:
        """Return the plan of a pending instant that reads files; None for writes and what reads none."""
        if one.action in _COMPACTIONS:
            return self._planned(one, plans.compaction_plan)
        if one.action is Action.CLUSTERING:
            return self._planned(one, plans.clustering_plan)
        maybe = one.action is Action.REPLACECOMMIT and self.properties.layout is Layout.V1
        if maybe and (one.requested is None or one.requested.size):  # a write's may be empty, and is never missing
            return self._planned(one, plans.clustering_plan)
        return None

    def _surely_planned(self, one: InstantFiles, decode: Callable[[Mapping[str, Any]], Plan]) -> Plan:
        plan = self._planned(one, decode)
        if plan is None:
            raise TemporaryError(f"the plan of {_who(one)} is gone")
        return plan

    def _planned(self, one: InstantFiles, decode: Callable[[Mapping[str, Any]], Plan | None]) -> Plan | None:
        return self._read(one, one.requested, lambda pieces: plans.merged(pieces, decode))

    def _read(self, one: InstantFiles, entry: FileEntry | None, what: Callable[[Pieces], _T]) -> _T:
        if entry is None:
            raise TemporaryError(f"the plan of {_who(one)} is gone")
        try:
            location = f"{self.properties.timeline_folder}/{entry.name}"
            return what(present(read_pieces(self.storage, location, size=entry.size)))
        except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{entry.name} cannot be read: {error}") from error


def _saved(pieces: Pieces) -> frozenset[DataFile]:
    return frozenset(file for piece in pieces for file in plans.savepointed_files(piece))


def _who(one: InstantFiles) -> str:
    return f"{one.action} {one.time}"
