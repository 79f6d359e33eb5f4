"""What clean and orphans share: the plan beside the table, written through the table's own FileIO, and the deletion."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from lakewarden.executors.contract import Step
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.backlog.hindrances import why_files_stay
from lakewarden.planners.formats.iceberg.deletion.first_seen import FirstSeen, Life, first_seen
from lakewarden.planners.formats.iceberg.deletion.first_seen import content_of as content_of_seen
from lakewarden.planners.formats.iceberg.deletion.first_seen import file_of as file_of_seen
from lakewarden.planners.formats.iceberg.deletion.ground import Ground
from lakewarden.planners.formats.iceberg.deletion.orphan_files import Probe
from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    DELETING,
    DeletionPlan,
    PlanBeside,
    content_of,
    file_of,
    instant_of,
    list_of,
    plan_beside,
)
from lakewarden.planners.formats.iceberg.deletion.reachable import Kind, NamedFile, Suspects
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, State
from lakewarden.planners.ports import MOST_FILES

log = structlog.get_logger(__name__)

_BATCH = 1000
_PIECE = 2**20
_LARGEST_LIST = 2**31
_END = "end"


def require_permission(metadata: TableMetadata) -> None:
    """Raise PermanentError where the table's own properties say that others may need its files."""
    if (why := why_files_stay(metadata)) is not None:
        raise PermanentError(f"{why.reason}; {why.remedy}")


def files_if_asked(table: OpenTable, metadata: TableMetadata, *, unneeded: int) -> int | None:
    """Return how many data and delete files the table has, if the run was asked to count them: those of its current
    snapshot, and those that are going to be deleted, which that does not have.
    """
    newest = metadata.current_snapshot
    if table.assignment.largest_share is None or newest is None:
        return None
    return newest.count("total-data-files") + newest.count("total-delete-files") + unneeded


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """The plan of one service beside one table: `location` is its folder as its writers spell it."""

    table: OpenTable
    location: str
    uuid: str
    ground: Ground

    @staticmethod
    def of(table: OpenTable, metadata: TableMetadata) -> Journal:
        """Return the journal of the table that `metadata` shows."""
        ground = Ground(metadata, table.options)
        return Journal(table=table, location=metadata.location, uuid=metadata.uuid, ground=ground)

    def read(self) -> PlanBeside:
        """Return what lies beside the table. Raises CorruptMetadataError and TemporaryError."""
        service = self.table.assignment.service
        found = plan_beside(service, Spelling().folder(self.location), self.table.storage, uuid=self.uuid)
        return found or PlanBeside(service=service, table=self.uuid)

    def write(self, beside: PlanBeside) -> Probe:
        """Write it, first beside, then in its place; return how the listing will show it."""
        content = content_of(beside)
        self._write(file_of(beside.service, self.location, beside=True), content)
        self._write(file_of(beside.service, self.location), content)
        return Probe(path=file_of(beside.service, "").lstrip("/"), size=len(content))

    def plan(
        self,
        beside: PlanBeside,
        files: Sequence[NamedFile],
        *,
        snapshots: Sequence[int] = (),
        waits_until: datetime | None = None,
    ) -> DeletionPlan:
        """Write the list and then the plan that names it; return the plan. One that is pending keeps its name."""
        now, run = self.table.clock.now(), self.table.assignment.run
        was = beside.pending
        plan = DeletionPlan(
            instant=instant_of(beside.service, run, now) if was is None else was.instant,
            run=run if was is None else was.run,
            requested_at=now if was is None else was.requested_at,
            state=State.REQUESTED,
            snapshots=tuple(snapshots),
            files=len(files),
            data_files=sum(file.kind is Kind.CONTENT for file in files),
            waits_until=waits_until,
        )
        lines = [*([file.kind.value, file.path] for file in files), [_END, len(files)]]
        self._write(list_of(beside.service, self.location, plan.run), "\n".join(map(json.dumps, lines)).encode())
        self.write(replace(beside, pending=plan))
        return plan

    def listed(self, plan: DeletionPlan) -> tuple[NamedFile, ...] | None:
        """Return the files of a plan's list; None where it was taken away, or is not whole."""
        service = self.table.assignment.service
        try:
            content = self.table.storage.read(
                list_of(service, Spelling().folder(self.location), plan.run), limit=_LARGEST_LIST
            )
            *lines, end = map(json.loads, content.splitlines())
            files = tuple(NamedFile(Kind(kind), str(path)) for kind, path in lines)
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return files if end == [_END, len(files)] else None

    def to_carry_out(self, instant: str) -> tuple[PlanBeside, DeletionPlan, tuple[NamedFile, ...]]:
        """Return what lies beside the table, the pending plan of this name, and its list.

        Raises TemporaryError where the plan is not pending any more, or its list is not there, and PermanentError where
        that names a file which is not this table's to delete.
        """
        beside = self.read()
        pending = beside.pending
        if pending is None or pending.instant != instant:
            raise TemporaryError(f"{instant} is not pending beside the table any more")
        files = self.listed(pending)
        if files is None:
            raise TemporaryError(f"the list of {instant} is not there any more")
        self.ground.require(files, listed_by=instant)
        return beside, pending, files

    def begin(self, beside: PlanBeside, plan: DeletionPlan) -> Probe:
        """Write that the plan is begun: from here on it is finished by whoever comes after us."""
        return self.write(replace(beside, pending=replace(plan, state=State.INFLIGHT)))

    def complete(self, beside: PlanBeside, plan: DeletionPlan) -> None:
        """Write that the plan is carried out, and delete its list."""
        self.write(replace(beside, pending=plan).with_completed(self.table.clock.now()))
        self._delete_list(plan.run)

    def forget(self, beside: PlanBeside) -> None:
        """Take the pending plan back: it deletes nothing."""
        self.write(replace(beside, pending=None))
        if beside.pending is not None:
            self._delete_list(beside.pending.run)

    def pending_lists(self) -> tuple[str, ...]:
        """Return where the lists of all pending plans beside the table lie, those of other services too."""
        folder = Spelling().folder(self.location)
        found = (plan_beside(service, folder, self.table.storage, uuid=self.uuid) for service in DELETING)
        return tuple(
            list_of(beside.service, self.location, beside.pending.run)
            for beside in found
            if beside is not None and beside.pending is not None
        )

    def seen_before(self) -> FirstSeen:
        """Return since when files are unknown to the table, as the last listing left it. Raises TemporaryError."""
        return first_seen(Spelling().folder(self.location), self.table.storage, life=self._life)

    def remember(self, seen: FirstSeen) -> None:
        """Write down since when files are unknown to the table."""
        self._write(file_of_seen(self.location), content_of_seen(seen, life=self._life))

    @property
    def _life(self) -> Life:
        return Life(uuid=self.uuid, location=self.location)

    def _delete_list(self, run: RunId) -> None:
        _delete(self.table, [list_of(self.table.assignment.service, self.location, run)])

    def _write(self, path: str, content: bytes) -> None:
        with translated(Step.EXECUTE):
            out = self.table.java.io().newOutputFile(path).createOrOverwrite()
            try:
                for start in range(0, len(content), _PIECE):
                    out.write(content[start : start + _PIECE])
            finally:
                out.close()


def delete(table: OpenTable, suspects: Suspects, spare: Callable[[TableMetadata], None]) -> dict[str, int]:
    """Delete the suspects that nothing needs, and return how many of each kind are gone.

    `spare` takes what the table needs from among them. It is asked with the metadata of now before the first batch, and
    again before every other that finds the table moved on. Raises TemporaryError where files are left: then the plan
    stays pending, and its list is gone through again.
    """
    seen, tried = "", list[NamedFile]()
    for batch in _batches(suspects.files()):
        if table.refreshed() != seen:
            metadata = table.metadata()
            require_permission(metadata)
            spare(metadata)
            seen = metadata.file
        doomed = [file for file in batch if file.path in suspects]
        _delete(table, [file.path for file in doomed])
        tried += doomed
        FAULTS.reach(Point.DELETING, run=table.assignment.run, service=table.assignment.service)
    left = still_there(table, (file.path for file in tried))
    if left:
        raise TemporaryError(f"{len(left)} of {len(tried)} files could not be deleted, {left[0]} among them")
    return {kind.value: sum(file.kind is kind for file in tried) for kind in Kind}


def still_there(table: OpenTable, paths: Iterable[str]) -> list[str]:
    """Return those of the files that a listing of their folders shows. FileIOs swallow failures, or count them only.

    Raises TemporaryError where a folder cannot be listed.
    """
    spelling, folders = Spelling(), dict[str, dict[str, str]]()
    for path in paths:
        folder, _, name = spelling(path).rpartition("/")
        folders.setdefault(folder, {})[name] = path
    left: list[str] = []
    for folder, names in folders.items():
        try:
            listed = table.storage.listing(folder, most=MOST_FILES)
        except FileNotFoundError:  # the last file took its folder away
            continue
        left += [names[entry.name] for entry in listed if entry.name in names]
    return left


def _batches(files: Iterable[NamedFile]) -> Iterator[Sequence[NamedFile]]:
    """Yield files of one kind at a time, and not too many."""
    for _, group in itertools.groupby(files, key=lambda file: file.kind):
        alike = list(group)
        yield from (alike[start : start + _BATCH] for start in range(0, len(alike), _BATCH))


def _delete(table: OpenTable, paths: Sequence[str]) -> None:
    """Ask the table's FileIO to delete files, in bulk where it can. What it could not delete, a listing will show."""
    if not paths:
        return
    gateway, io = table.spark.sparkContext._gateway, table.java.io()  # noqa: SLF001 - pyspark's own door to py4j
    with translated(Step.EXECUTE):
        if is_instance_of(gateway, io, "org.apache.iceberg.io.SupportsBulkOperations"):
            doomed = table.jvm.java.util.ArrayList()
            for path in paths:
                doomed.add(path)
            _tolerantly(lambda: io.deleteFiles(doomed))
        else:
            for path in paths:
                _tolerantly(functools.partial(io.deleteFile, path))


def _tolerantly(call: Callable[[], None]) -> None:
    try:
        call()
    except Py4JJavaError as error:
        log.warning("files were not deleted", reason=str(error.java_exception.toString()))
