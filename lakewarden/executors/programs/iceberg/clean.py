"""Clean: snapshots expire, and the files that they alone need are deleted. Its execution is joined with its commit.

Iceberg's own action expires by age what it finds at the time of the commit, gives up names by age too, and knows what
to delete only as long as it lives. So ids are chosen here, the list of files is written before, and the commit removes
these ids and nothing else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog
from py4j.protocol import Py4JJavaError

from lakewarden.executors.contract import Assignment, NothingToDo, Plan, Step, Steps
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, open_table
from lakewarden.executors.programs.iceberg.steps.deleting import Journal, delete, files_if_asked, require_permission
from lakewarden.planners.formats.iceberg.deletion.ahead import require_newest
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan, PlanBeside
from lakewarden.planners.formats.iceberg.deletion.reachable import Kind, Suspects, only_reachable_from
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.retries import pauses
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import State
from lakewarden.planners.ports import Storage

log = structlog.get_logger(__name__)


class Clean:
    """The clean program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table for one run. An abort leaves the plan pending, and deletes nothing."""
        with open_table(session, assignment, storage, clock=self._clock) as table:
            yield CleanSteps(table)


class CleanSteps:
    """The three steps, of which the second does nothing."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._options = CleanOptions.model_validate(dict(table.assignment.service_options))
        self._planned: Suspects | None = None

    def plan(self) -> Plan | NothingToDo:
        """Take up the pending plan, whoever made it; only without one, make a new one.

        One whose snapshots the table still has was not carried out, even if it was begun: they go all at once. It is
        made anew under its name, of those that may still expire.
        """
        metadata = self._table.metadata()
        require_permission(metadata)
        journal = Journal.of(self._table, metadata)
        beside = journal.read()
        pending = beside.pending
        if pending is None and self._table.assignment.instant is not None:
            return NothingToDo(reason=f"{self._table.assignment.instant} is not pending any more")
        if pending is not None and not _left(pending, metadata):
            if journal.listed(pending) is not None:
                return self._told(pending, metadata)
            log.warning("the list of a deletion was taken away: orphans will find what it left", plan=pending.instant)
        ids = self._may_expire(metadata, among=None if pending is None else pending.snapshots)
        if not ids:
            if pending is not None:
                journal.forget(beside)
            return NothingToDo(reason="no snapshot may expire")
        require_newest(metadata, self._table.storage, now=self._table.clock.now())
        unneeded = only_reachable_from(ids, metadata, self._table.storage)
        self._planned = unneeded.among(journal.ground.own(unneeded.files()))
        return self._told(journal.plan(beside, self._planned.files(), snapshots=ids), metadata)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Expire what the plan names and may still expire; then delete what of its list the table does not need now."""
        metadata = self._table.metadata()
        require_permission(metadata)
        journal = Journal.of(self._table, metadata)
        beside, pending, files = journal.to_carry_out(plan.on_timeline)
        require_newest(metadata, self._table.storage, now=self._table.clock.now())
        journal.begin(beside, pending)
        expired = self._expire(journal, beside, pending, metadata)
        FAULTS.reach(Point.EXPIRED, run=self._table.assignment.run, service=self._table.assignment.service)
        planned = self._planned
        suspects = planned if planned is not None and planned.files() == files else Suspects(files, Spelling())
        gone = delete(self._table, suspects, lambda current: self._spare(suspects, current, pending, journal.uuid))
        journal.complete(beside, pending)
        return {
            "snapshots_expired": expired,
            "files_deleted": sum(gone.values()),
            "data_files_deleted": gone[Kind.CONTENT],
        }

    def _told(self, plan: DeletionPlan, metadata: TableMetadata) -> Plan:
        """Return the plan as the daemon is told it. The budget is of data files: those hold rows."""
        in_table = files_if_asked(self._table, metadata, unneeded=plan.data_files)
        return Plan(instant=plan.instant, files_to_delete=plan.data_files, files_in_table=in_table)

    def _may_expire(self, metadata: TableMetadata, *, among: Collection[int] | None = None) -> tuple[int, ...]:
        """Return what may expire now, of all snapshots or `among` those that were chosen before."""
        options = self._options
        if among is not None:
            options = options.model_copy(update={"max_snapshots": len(metadata.snapshots)})
        found = expirable(metadata, options, self._table.options, self._table.clock.now()).ids
        return found if among is None else tuple(one for one in found if one in among)

    def _confirm(self, pending: DeletionPlan, metadata: TableMetadata) -> tuple[int, ...]:
        """Return those of the plan's snapshots that the table still has. Raises YieldError unless each may expire now:
        a rollback, a tag or a job of Flink's may have come to need it.
        """
        present = _left(pending, metadata)
        needed = sorted(set(present) - set(self._may_expire(metadata, among=present)))
        if needed:
            raise YieldError(f"snapshot {needed[0]} was planned to expire, and must stay now: the plan is made anew")
        return present

    def _expire(self, journal: Journal, beside: PlanBeside, pending: DeletionPlan, metadata: TableMetadata) -> int:
        """Remove the plan's snapshots from the table, in one commit; return how many were there.

        Each attempt looks anew, as often as the table's `commit.retry.*` allow: it reads what is new since `metadata`,
        for a writer may commit every second. Where the last look forbids it, or every attempt found the pointer moved,
        nothing was committed, and the plan is one that nobody has begun. Raises UnknownError where that is not known.
        """
        waits = (0.0, *pauses(metadata.properties))
        for wait in waits:
            time.sleep(wait)
            base, metadata = self._fresh(metadata)
            try:
                present = self._confirm(pending, metadata)
            except YieldError:
                journal.write(replace(beside, pending=replace(pending, state=State.REQUESTED)))
                raise
            if not present:
                return 0
            if self._removed(base, present):
                return len(present)
        journal.write(replace(beside, pending=replace(pending, state=State.REQUESTED)))
        raise YieldError(
            f"the table moved on during each of {len(waits)} attempts to expire {len(pending.snapshots)} snapshots: "
            "raise its commit.retry.num-retries if it is so each time"
        )

    def _fresh(self, known: TableMetadata) -> tuple[Any, TableMetadata]:
        """Return the metadata of now, as Iceberg's own object and as we read the same file: what is `known` of an
        earlier one is not decoded again.
        """
        with translated(Step.PLAN):
            base = self._table.java.operations().refresh()
            file = str(base.metadataFileLocation())
        return base, known if known.file == file else read_table(file, self._table.storage, told=known.told)

    def _removed(self, base: Any, snapshots: Collection[int]) -> bool:
        """Commit `base` without these snapshots; False where the pointer had moved."""
        ids = self._table.jvm.java.util.HashSet()  # a list would be taken for one of snapshots
        for snapshot in snapshots:
            ids.add(snapshot)
        with translated(Step.EXECUTE):
            updated = self._table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base).removeSnapshots(ids).build()
            left, names = updated.snapshots().size(), updated.refs().size()
            if left != base.snapshots().size() - len(snapshots) or names != base.refs().size():
                raise PermanentError("Iceberg would remove something else than the snapshots that were chosen")
        FAULTS.reach(Point.EXPIRING, run=self._table.assignment.run, service=self._table.assignment.service)
        with translated(Step.COMMIT):
            try:
                self._table.java.operations().commit(base, updated)
            except Py4JJavaError as error:
                if not str(error.java_exception.getClass().getName()).endswith(".CommitFailedException"):
                    raise
                return False
        return True

    def _spare(self, suspects: Suspects, metadata: TableMetadata, carried_out: DeletionPlan, uuid: str) -> None:
        """Let go of everything that the table reaches now. Raises where it is another table, or has a snapshot that
        has expired: then what was read is not of now.
        """
        if metadata.uuid != uuid:
            raise PermanentError("the table was dropped and made again while its snapshots expired")
        back = _left(carried_out, metadata)
        if back:
            raise TemporaryError(f"snapshot {back[0]} has expired, and the table still shows it")
        suspects.spare_reachable(metadata, self._table.storage)


def _left(plan: DeletionPlan, metadata: TableMetadata) -> tuple[int, ...]:
    """Return those of a plan's snapshots that the table has."""
    return tuple(one for one in plan.snapshots if one in metadata.by_id)
