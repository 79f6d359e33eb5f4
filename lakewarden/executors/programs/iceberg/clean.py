"""Clean: snapshots expire, and the files that only they need are deleted. Its execution is joined with its commit.

Iceberg's own action chooses snapshots, branches and tags by age at the time of the commit. And if it dies, what was
left to delete is not known any more. So Lakewarden chooses the ids and the names, writes the list of files first, and
commits the removal of exactly these.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.iceberg.client.commit import applies_changes, moved
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.observing import require_no_copy
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.steps.deleting import (
    PlanStore,
    delete,
    files_if_asked,
    lost_if_unmoved,
    require_permission,
)
from lakewarden.executors.programs.iceberg.steps.restoring import UnknownNamesError, restore_lost_refs
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import require_newest
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan, PlanBeside
from lakewarden.planners.formats.iceberg.deletion.reachable import FileKind, Suspects, only_reachable_from
from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef, named
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata, waits
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import State, Step

log = structlog.get_logger(__name__)


class ChosenSnapshots(NamedTuple):
    """What is going to expire."""

    snapshots: tuple[int, ...]
    refs: tuple[NamedRef, ...]

    @property
    def is_nothing(self) -> bool:
        """Whether nothing expires."""
        return not self.snapshots and not self.refs


class CleanSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: CleanOptions) -> None:
        self._table = table
        self._options = options
        self._planned: Suspects | None = None

    def plan(self) -> Plan | NothingToDo:
        """Take up the pending plan of any author. If there is none, make a new one.

        If the table still has snapshots of the plan, it was not carried out, even if it was begun, because all of them
        expire in one commit. Then the plan is made again under its name, with the snapshots that may still expire.
        """
        metadata = self._table.metadata()
        require_permission(metadata)
        plan_store = PlanStore.of(self._table, metadata)
        beside = plan_store.read()
        pending = beside.pending
        if pending is None and self._table.assignment.instant is not None:
            return NothingToDo(reason=f"{self._table.assignment.instant} is not pending any more")
        if pending is not None and _left(pending, metadata).is_nothing:
            if plan_store.is_listed(pending):
                return self._as_plan(pending, metadata)
            log.warning("deletion_list_missing", plan=pending.instant)
        chosen = self._may_expire(
            metadata, among=None if pending is None else ChosenSnapshots(pending.snapshots, pending.refs)
        )
        if chosen.is_nothing:
            if pending is not None:
                plan_store.forget(beside)
            return NothingToDo(reason="no snapshot may expire")
        with lost_if_unmoved(self._table, metadata):
            unneeded = only_reachable_from(chosen.snapshots, metadata, self._table.storage)
        for path in unneeded.lost:
            log.warning("expired_metadata_lost", location=metadata.location, file=path)
        self._planned = unneeded.among(plan_store.ground.own(unneeded.files()))
        files = self._planned.files()
        return self._as_plan(plan_store.plan(beside, files, snapshots=chosen.snapshots, refs=chosen.refs), metadata)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Expire the snapshots of the plan that may still expire. Then delete the files of its list that the table does
        not need now.
        """
        require_newest(self._table.metadata, self._table.storage, now=self._table.clock.now())
        metadata = self._table.metadata()
        require_permission(metadata)
        plan_store = PlanStore.of(self._table, metadata)
        beside, pending, files = plan_store.to_carry_out(plan.on_timeline)
        plan_store.begin(beside, pending)
        expired = self._expire(plan_store, beside, pending, metadata)
        points.reach(Point.EXPIRED, run=self._table.assignment.run, service=self._table.assignment.service)
        pending, restored = self._with_refs(plan_store, beside, pending)
        planned = self._planned
        if pending.files == 0:
            planned, files = None, ()
        suspects = planned if planned is not None and planned.files() == files else Suspects(files, Spelling())
        gone = delete(self._table, suspects, lambda current: self._spare(suspects, current, pending, plan_store.uuid))
        plan_store.complete(beside, pending)
        return {
            "snapshots_expired": len(expired.snapshots),
            "refs_expired": len(expired.refs),
            "refs_restored": restored,
            "files_deleted": gone[FileKind.CONTENT],
            "metadata_files_deleted": sum(gone.values()) - gone[FileKind.CONTENT],
            **({"metadata_files_lost": len(suspects.lost)} if suspects.lost else {}),
        }

    def _as_plan(self, plan: DeletionPlan, metadata: TableMetadata) -> Plan:
        """Return the plan for the daemon. The budget counts data files, because those hold rows."""
        require_no_copy(self._table, metadata)
        in_table = files_if_asked(self._table, metadata, unneeded=plan.data_files)
        return Plan(
            instant=plan.instant,
            files_to_delete=plan.data_files,
            bytes_to_delete=PlanStore.of(self._table, metadata).bytes_of(plan, FileKind.CONTENT),
            versions_to_delete=len(plan.snapshots),
            files_in_table=in_table,
        )

    def _may_expire(self, metadata: TableMetadata, *, among: ChosenSnapshots | None = None) -> ChosenSnapshots:
        """Return what may expire now: of all snapshots and names, or of those that were chosen before (`among`)."""
        options, table_options, now = self._options, self._table.options, self._table.clock.now()
        if among is None:
            choice = expirable(metadata, options, table_options, now)
            return ChosenSnapshots(choice.ids, tuple(map(named, choice.refs)))
        options = options.model_copy(update={"max_snapshots": len(metadata.snapshots)})
        choice = expirable(metadata, options, table_options, now, among=among.refs)
        chosen = frozenset(among.snapshots)
        return ChosenSnapshots(
            tuple(snapshot for snapshot in choice.ids if snapshot in chosen), tuple(map(named, choice.refs))
        )

    def _confirm(self, pending: DeletionPlan, metadata: TableMetadata) -> ChosenSnapshots:
        """Return the snapshots and names of the plan that the table still has. Raises YieldError unless each may expire
        now. A rollback, a tag or a Flink job may need one by now.
        """
        present = _left(pending, metadata)
        may = self._may_expire(metadata, among=present)
        needed = [f"snapshot {snapshot}" for snapshot in sorted(set(present.snapshots) - set(may.snapshots))]
        needed += [f"the name {name!r}" for name, _ in sorted(set(present.refs) - set(may.refs))]
        if needed:
            raise YieldError(f"{needed[0]} was planned to expire, and must stay now: it is planned again")
        return present

    def _expire(
        self, plan_store: PlanStore, beside: PlanBeside, pending: DeletionPlan, metadata: TableMetadata
    ) -> ChosenSnapshots:
        """Remove the plan's snapshots and names from the table in one commit. Return those that were there.

        Each attempt checks again, as often as the table's `commit.retry.*` allow. It reads only what is new since
        `metadata`, because a writer may commit every second. If the last check forbids the commit, or the pointer had
        moved at every attempt, nothing was committed, and the plan counts as not begun. Raises UnknownError if the
        outcome is not known.
        """
        tries = tuple(waits(metadata.properties))
        for wait in tries:
            time.sleep(wait)
            base, metadata = self._fresh(metadata)
            try:
                present = self._confirm(pending, metadata)
            except YieldError:
                plan_store.write(replace(beside, pending=replace(pending, state=State.REQUESTED)))
                raise
            if present.is_nothing or self._removed(base, present):
                return present
        plan_store.write(replace(beside, pending=replace(pending, state=State.REQUESTED)))
        raise YieldError(
            f"the table moved on during each of {len(tries)} attempts to expire {len(pending.snapshots)} snapshots: "
            "raise its commit.retry.num-retries if it is so each time"
        )

    def _with_refs(self, plan_store: PlanStore, beside: PlanBeside, pending: DeletionPlan) -> tuple[DeletionPlan, int]:
        """Restore the names that were made of expiring snapshots in the moment of the commit. Return the plan without
        those snapshots, and how many names these are. If it is not known whether there are any, the plan has no files:
        they are left to orphans.
        """
        if not applies_changes(self._table):
            return pending, 0
        try:
            names = restore_lost_refs(self._table, pending)
        except UnknownNamesError as unknown:
            log.warning("names_unknown", plan=pending.instant, reason=str(unknown))
            return replace(pending, files=0, data_files=0), 0
        if names:
            back = {name.snapshot for name in names}
            pending = replace(
                pending, snapshots=tuple(snapshot for snapshot in pending.snapshots if snapshot not in back)
            )
            plan_store.begin(beside, pending)
        return pending, len(names)

    def _fresh(self, metadata: TableMetadata) -> tuple[Any, TableMetadata]:
        """Return the current metadata twice: as Iceberg's own object, and as the daemon's reader reads the same file.
        Snapshots of `metadata` are not decoded again.
        """
        with translated(Step.PLAN):
            base = self._table.java.operations().refresh()
            file = str(base.metadataFileLocation())
        return base, metadata if metadata.file == file else read_table(file, self._table.storage, told=metadata.told)

    def _removed(self, base: Any, chosen: ChosenSnapshots) -> bool:
        """Commit `base` without these snapshots and names. Return False if the pointer or a name had moved."""
        ids = self._table.jvm.java.util.HashSet()  # Java would take a list for a list of snapshots
        for snapshot in chosen.snapshots:
            ids.add(snapshot)
        with translated(Step.EXECUTE):
            builder = self._table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
            for name, _ in chosen.refs:
                builder = builder.removeRef(name)
            builder = builder.removeSnapshots(ids)
            updated = builder.build()
            left, names = updated.snapshots().size(), updated.refs().size()
            expected = base.snapshots().size() - len(chosen.snapshots), base.refs().size() - len(chosen.refs)
            if (left, names) != expected:
                raise PermanentError("Iceberg would remove something else than what was chosen")
        points.reach(Point.EXPIRING, run=self._table.assignment.run, service=self._table.assignment.service)
        return moved(self._table, base, updated, requires_names=True)

    def _spare(self, suspects: Suspects, metadata: TableMetadata, carried_out: DeletionPlan, uuid: str) -> None:
        """Spare everything that the table needs now. Raises if it is another table, or still has a snapshot that has
        expired: then the metadata is stale.
        """
        if metadata.uuid != uuid:
            raise PermanentError("the table was dropped and made again while its snapshots expired")
        back = _left(carried_out, metadata).snapshots
        if back:
            raise TemporaryError(f"snapshot {back[0]} has expired, and the table still shows it")
        suspects.spare_reachable(metadata, self._table.storage)


def _left(plan: DeletionPlan, metadata: TableMetadata) -> ChosenSnapshots:
    """Return the snapshots and names of a plan that the table has. All of them expire in one commit. If every snapshot
    is gone, a name that is there was made again since.
    """
    snapshots = tuple(snapshot for snapshot in plan.snapshots if snapshot in metadata.by_id)
    if plan.snapshots and not snapshots:
        return ChosenSnapshots((), ())
    present = set(map(named, metadata.refs))
    return ChosenSnapshots(snapshots, tuple(ref for ref in plan.refs if ref in present))


Clean = program(CleanSteps, CleanOptions)
"""The clean program. An abort leaves the plan pending, and deletes nothing."""
