"""The plan of a deletion, with its list of files, in a folder of its own beside the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.executors.programs.iceberg.client.errors import plan_refused, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.steps.deleting import delete_paths
from lakewarden.executors.programs.iceberg.steps.lists import MOST_LISTED, NotWholeError, files_in, lines_of
from lakewarden.planners.formats.first_seen import FirstSeen, Life, first_seen
from lakewarden.planners.formats.first_seen import content_of as content_of_seen
from lakewarden.planners.formats.iceberg.deletion.candidates import Digests, TableFolder
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
    seen_file_of,
)
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import address_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, State
from lakewarden.planners.model.step import Step

_CHUNK = 2**20


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
        found = plan_beside(service, address_of(self.location), self.table.storage, uuid=self.uuid)
        return found or PlanBeside(service=service, table=self.uuid)

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
        found = Digests(pending.files)
        for number, file in enumerate(self.read_list(pending)):
            if number == pending.files:
                raise NotWholeError(f"the list of {pending.instant} names more files than it counts")
            self.ground.require([file], listed_by=pending.instant)
            found.add(folder.known(file.path))
        return found

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
        found = (plan_beside(service, folder, self.table.storage, uuid=self.uuid) for service in DELETING)
        return tuple(
            list_of(beside.service, self.location, beside.pending.run)
            for beside in found
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
