"""What clean and orphans share: the plan beside the table, which the table's own FileIO writes, and the deletion."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from lakewarden.executors import points
from lakewarden.executors.points import Point
from lakewarden.executors.programs.iceberg.client.errors import plan_refused, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.first_seen import FirstSeen, Life, first_seen
from lakewarden.planners.formats.first_seen import content_of as content_of_seen
from lakewarden.planners.formats.iceberg.backlog.blockers import files_needed_elsewhere
from lakewarden.planners.formats.iceberg.deletion.candidates import Candidates, Digests, TableFolder
from lakewarden.planners.formats.iceberg.deletion.orphan_files import Probe
from lakewarden.planners.formats.iceberg.deletion.own_folders import Ground
from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    DELETING,
    DeletionPlan,
    PlanBeside,
    content_of,
    file_of,
    instant_of,
    list_of,
    plan_beside,
    seen_file_of,
)
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind, Suspects
from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, State, Step
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import bytes_of
from lakewarden.planners.storage.locations import by_key

log = structlog.get_logger(__name__)

_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_BATCH = 1000
_CHECKED = 100_000
"""After so many files their stores are asked whether the files are gone."""

_TOLD = 1000


def require_permission(metadata: TableMetadata) -> None:
    """Raise PermanentError if the table's own properties say that others may need its files."""
    for blocker in files_needed_elsewhere(metadata):
        raise PermanentError(f"{blocker.reason}; {blocker.remedy}")


def files_if_asked(table: OpenTable, metadata: TableMetadata, *, unneeded: int) -> int | None:
    """Return how many data and delete files the table has, if the run was asked to count them. These are the files of
    its current snapshot, and the `unneeded` files, which that snapshot does not have.
    """
    newest = metadata.current_snapshot
    if table.assignment.largest_share is None or newest is None:
        return None
    return newest.count("total-data-files") + newest.count("total-delete-files") + unneeded


@contextlib.contextmanager
def lost_if_unmoved(table: OpenTable, metadata: TableMetadata) -> Iterator[None]:
    """Turn a VanishedError into a PermanentError if the table is still at `metadata`: then the snapshot that
    needs the file has not expired.
    """
    try:
        yield
    except VanishedError as gone:
        if table.metadata().file != metadata.file:
            raise
        raise PermanentError(str(gone)) from gone


def delete(table: OpenTable, suspects: Suspects | Candidates, spare: Callable[[TableMetadata], None]) -> dict[str, int]:
    """Delete the suspects that the table does not need. Return how many of each kind are gone.

    `spare` removes the files that the table needs from the suspects. It is called with the current metadata before the
    first batch, and again before every batch if the table has changed. Raises TemporaryError if files are left. Then
    the plan stays pending, and the next run goes through its list again.
    """
    seen, tried, left = "", list[DeletableFile](), list[str]()
    gone: Counter[FileKind] = Counter()

    def check() -> None:
        left.extend(still_there(table, (file.path for file in tried))[: _TOLD - len(left)])
        tried.clear()

    for batch in _batches(suspects.files()):
        if table.refreshed() != seen:
            metadata = table.metadata()
            require_permission(metadata)
            with lost_if_unmoved(table, metadata):
                spare(metadata)
            seen = metadata.file
        to_delete = [file for file in batch if file.path in suspects]
        delete_paths(table, [file.path for file in to_delete])
        tried += to_delete
        gone.update(file.kind for file in to_delete)
        points.reach(Point.DELETING, run=table.assignment.run, service=table.assignment.service)
        if len(tried) >= _CHECKED:
            check()
    check()
    if left:
        several = f"{len(left)}{' or more' if len(left) == _TOLD else ''}"
        raise TemporaryError(f"{several} of {gone.total()} files could not be deleted, {left[0]} among them")
    return {kind.value: gone[kind] for kind in FileKind}


def still_there(table: OpenTable, paths: Iterable[str]) -> list[str]:
    """Return those of the files that their store still has. A FileIO may hide failures, or only count them.

    Raises TemporaryError if the store does not tell.
    """
    spelling, folders = Spelling(), dict[str, dict[str, str]]()
    for path in paths:
        folder, _, name = (by_key(path) or spelling(path)).rpartition("/")
        folders.setdefault(folder, {})[name] = path
    left: list[str] = []
    for folder, names in folders.items():
        left += [names[name] for name in table.storage.present(folder, names)]
    return left


def _batches(files: Iterable[DeletableFile]) -> Iterator[Sequence[DeletableFile]]:
    """Yield files of one kind at a time, in batches of a limited size."""
    for _, alike in itertools.groupby(files, key=lambda file: file.kind):
        while batch := list(itertools.islice(alike, _BATCH)):
            yield batch


def delete_paths(table: OpenTable, paths: Sequence[str]) -> None:
    """Ask the table's FileIO to delete files, in bulk if it can. A listing shows the files that it could not delete.

    If S3FileIO fails in bulk, each file is deleted by itself: in bulk it takes the credentials of the bucket, and a
    catalog may hand out credentials for the folder of the table alone (Iceberg 1.11, run).
    """
    if not paths:
        return
    gateway, io = table.spark.sparkContext._gateway, table.java.io()  # noqa: SLF001 - pyspark's own access to py4j
    with translated(Step.EXECUTE):
        if is_instance_of(gateway, io, "org.apache.iceberg.io.SupportsBulkOperations"):
            to_delete = table.jvm.java.util.ArrayList()
            for path in paths:
                to_delete.add(path)
            if _tolerantly(lambda: io.deleteFiles(to_delete)) or str(io.getClass().getName()) != _S3_FILE_IO:
                return
        for path in paths:
            _tolerantly(functools.partial(io.deleteFile, path))


def _tolerantly(call: Callable[[], None]) -> bool:
    """Return whether the call succeeded."""
    try:
        call()
    except Py4JJavaError as error:
        log.warning("files_not_deleted", reason=str(error.java_exception.toString()))
        return False
    return True


# The list of the files that a plan is going to delete: one line for each, and at the end their number. It may be long.
# Only a part of it is in memory at a time.

MOST_LISTED = 1_000_000
"""The most files that one run of orphans deletes. If there are more, the service is due again at once."""

_CHUNK = 2**20
_PART = 2**23
_END = "end"


class NotWholeError(TemporaryError):
    """The list of a plan is missing, or is not whole."""


def lines_of(files: Iterable[DeletableFile], written: Counter[FileKind]) -> Iterator[bytes]:
    """Yield the list of `files` in pieces, and count its files by kind in `written`."""
    gathered = bytearray()
    for file in files:
        gathered += json.dumps([file.kind.value, file.path]).encode() + b"\n"
        written[file.kind] += 1
        if len(gathered) >= _CHUNK:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered) + json.dumps([_END, written.total()]).encode()


def files_in(file: str, storage: Storage) -> Iterator[DeletableFile]:
    """Yield the files of the list in `file`. Raises NotWholeError, at the end at the latest, and TemporaryError."""
    named = 0
    try:
        for line in _lines_in(file, storage):
            kind, path = json.loads(line)
            if kind == _END:
                if path != named:
                    break
                return
            yield DeletableFile(FileKind(kind), str(path))
            named += 1
    except (FileNotFoundError, ValueError, TypeError) as wrong:
        raise NotWholeError(f"{file} is not there any more, or not whole") from wrong
    raise NotWholeError(f"{file} is not whole")


def _lines_in(file: str, storage: Storage) -> Iterator[bytes]:
    rest = b""
    for begin in itertools.count(0, _PART):
        part = storage.read_part(file, begin=begin, size=_PART)
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if len(part) < _PART:
            yield rest
            return
        if len(rest) > _PART:
            raise ValueError("its lines have no end")


# The plan of a deletion, with its list of files, in a folder of its own beside the table.


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStore:
    """The plan of one service beside one table. `location` is the table's folder as its writers spell it."""

    table: OpenTable
    location: str
    uuid: str
    ground: Ground

    @staticmethod
    def of(table: OpenTable, metadata: TableMetadata) -> PlanStore:
        """Return the store for the table with this `metadata`."""
        ground = Ground(metadata, table.options, table.storage)
        return PlanStore(table=table, location=metadata.location, uuid=metadata.uuid, ground=ground)

    def read(self) -> PlanBeside:
        """Return the plans beside the table. Raises CorruptMetadataError and TemporaryError."""
        service = self.table.assignment.service
        beside = plan_beside(service, address_of(self.location), self.table.storage, uuid=self.uuid)
        return beside or PlanBeside(service=service, table=self.uuid)

    def write(self, beside: PlanBeside) -> Probe:
        """Write the plans, first to the second file, then in their place. Return what a listing must show of
        the file.
        """
        content = content_of(beside)
        self._write(file_of(beside.service, self.location, beside=True), content)
        self._write(file_of(beside.service, self.location), content)
        return Probe(path=file_of(beside.service, "").lstrip("/"), size=len(content))

    def plan(
        self,
        beside: PlanBeside,
        files: Iterable[DeletableFile],
        *,
        snapshots: Sequence[int] = (),
        refs: Sequence[NamedRef] = (),
        waits_until: datetime | None = None,
        left_over: int = 0,
    ) -> DeletionPlan:
        """Write the list, and then the plan that names it. Return the plan. A pending plan keeps its name."""
        now, run = self.table.clock.now(), self.table.assignment.run
        was = beside.pending
        plan = DeletionPlan(
            instant=instant_of(beside.service, run, now) if was is None else was.instant,
            run=run if was is None else was.run,
            requested_at=now if was is None else was.requested_at,
            state=State.REQUESTED,
            snapshots=tuple(snapshots),
            files=0,
            data_files=0,
            waits_until=waits_until,
            left_over=left_over,
            refs=tuple(refs),
        )
        written: Counter[FileKind] = Counter()
        self._write_parts(list_of(beside.service, self.location, plan.run), lines_of(files, written))
        plan = replace(plan, files=written.total(), data_files=written[FileKind.CONTENT])
        self.write(replace(beside, pending=plan))
        return plan

    def is_listed(self, plan: DeletionPlan) -> bool:
        """Whether the list of a plan exists and is whole."""
        try:
            for _ in self.read_list(plan):
                pass
        except NotWholeError:
            return False
        return True

    def read_list(self, plan: DeletionPlan) -> Iterator[DeletableFile]:
        """Yield the files in the list of a plan. Raises NotWholeError, at the end at the latest."""
        at = list_of(self.table.assignment.service, address_of(self.location), plan.run)
        return files_in(at, self.table.storage)

    def bytes_of(self, plan: DeletionPlan, *kinds: FileKind) -> int | None:
        """Return how many bytes the files of a plan have, those of some kinds or all. None if they were not counted."""
        files = (file.path for file in self.read_list(plan) if not kinds or file.kind in kinds)
        return bytes_of(map(address_of, files), self.table.storage)

    def to_carry_out(self, instant: str) -> tuple[PlanBeside, DeletionPlan, tuple[DeletableFile, ...]]:
        """Return the plans beside the table, the pending plan of this name, and its list.

        Raises TemporaryError if the plan is not pending any more, or its list does not exist. Raises PermanentError if
        the list names a file that must not be deleted with this table.
        """
        beside, pending = self.pending(instant)
        files = tuple(self.read_list(pending))
        self.ground.require(files, listed_by=instant)
        return beside, pending, files

    def pending(self, instant: str) -> tuple[PlanBeside, DeletionPlan]:
        """Return the plans beside the table, and the pending plan of this name. Raises TemporaryError if it is not
        pending any more.
        """
        beside = self.read()
        if beside.pending is None or beside.pending.instant != instant:
            raise TemporaryError(f"{instant} is not pending beside the table any more")
        return beside, beside.pending

    def digests(self, pending: DeletionPlan, folder: TableFolder) -> Digests:
        """Return the files in the list of a plan as digests. Raises what `to_carry_out` raises for the list."""
        if pending.files > MOST_LISTED:
            raise PermanentError(f"{pending.instant} counts {pending.files} files, and no list of ours is so long")
        file_digests = Digests(pending.files)
        for number, file in enumerate(self.read_list(pending)):
            if number == pending.files:
                raise NotWholeError(f"the list of {pending.instant} names more files than it counts")
            self.ground.require([file], listed_by=pending.instant)
            file_digests.add(folder.known(file.path))
        return file_digests

    def begin(self, beside: PlanBeside, plan: DeletionPlan) -> Probe:
        """Write that the plan is begun. From then on any later run finishes it."""
        return self.write(replace(beside, pending=replace(plan, state=State.INFLIGHT)))

    def complete(self, beside: PlanBeside, plan: DeletionPlan) -> None:
        """Write that the plan is carried out, and delete its list."""
        self.write(replace(beside, pending=plan).with_completed(self.table.clock.now()))
        self._delete_list(plan.run)

    def forget(self, beside: PlanBeside) -> None:
        """Remove the pending plan. Nothing is deleted."""
        self.write(replace(beside, pending=None))
        if beside.pending is not None:
            self._delete_list(beside.pending.run)

    def pending_lists(self) -> tuple[str, ...]:
        """Return the paths of the lists of all pending plans beside the table, also of other services."""
        folder = address_of(self.location)
        plans = (plan_beside(service, folder, self.table.storage, uuid=self.uuid) for service in DELETING)
        return tuple(
            list_of(beside.service, self.location, beside.pending.run)
            for beside in plans
            if beside is not None and beside.pending is not None
        )

    def seen_before(self) -> FirstSeen:
        """Return since when files are unknown to the table, according to the last listing. Raises TemporaryError."""
        return first_seen(seen_file_of(address_of(self.location)), self.table.storage, life=self._life)

    def remember(self, seen: FirstSeen) -> None:
        """Write down since when files are unknown to the table."""
        self._write(seen_file_of(self.location), content_of_seen(seen, life=self._life))

    @property
    def _life(self) -> Life:
        return Life(uuid=self.uuid, location=self.location)

    def _delete_list(self, run: RunId) -> None:
        delete_paths(self.table, [list_of(self.table.assignment.service, self.location, run)])

    def _write(self, path: str, content: bytes) -> None:
        self._write_parts(path, [content])

    def _write_parts(self, path: str, parts: Iterable[bytes]) -> None:
        try:
            with translated(Step.EXECUTE):
                out = self.table.java.io().newOutputFile(path).createOrOverwrite()
                try:
                    for content in parts:
                        for start in range(0, len(content), _CHUNK):
                            out.write(content[start : start + _CHUNK])
                finally:
                    out.close()
        except LakewardenError as error:
            raise plan_refused(error, path) from error
