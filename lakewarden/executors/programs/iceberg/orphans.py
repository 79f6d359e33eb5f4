"""Orphans: files below the table's folder that the table does not know are deleted. Its execution is joined with its
commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.iceberg.client.observing import neighbours
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.steps.deleting import (
    MOST_LISTED,
    PlanStore,
    delete,
    files_if_asked,
    lost_if_unmoved,
    require_permission,
)
from lakewarden.planners.formats.iceberg.deletion.candidates import Candidates, Digests, Spool, TableFolder
from lakewarden.planners.formats.iceberg.deletion.orphan_files import FolderListing, Probe, listed, spare_known
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan, PlanBeside
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions, age_of_orphans
from lakewarden.planners.model.errors import PermanentError


class OrphansSteps:
    """The three steps. The second does nothing. Each of the others lists the whole folder."""

    def __init__(self, table: OpenTable, options: OrphansOptions) -> None:
        self._table = table
        self._options = options
        self._orphans: FoundOrphans | None = None

    def plan(self) -> Plan | NothingToDo:
        """Take up the pending plan. If there is none, list the folder and write down the files that the table does not
        know.

        A file that earlier listings did not show as unknown must wait. The plan leaves it out. So a plan may be empty:
        the run then counts, and the next one comes when it is due.
        """
        metadata = self._table.metadata()
        require_permission(metadata)
        plan_store = PlanStore.of(self._table, metadata)
        beside = plan_store.read()
        if beside.pending is not None:
            if plan_store.is_listed(beside.pending):
                return self._as_plan(beside.pending, metadata)
            plan_store.forget(beside)
            beside = plan_store.read()
        elif self._table.assignment.instant is not None:
            return NothingToDo(reason=f"{self._table.assignment.instant} is not pending any more")
        listing = self._listed(metadata, probe=plan_store.write(beside))
        unknown = self._unknown_of(listing, plan_store)
        if any(unknown) and (foreign := neighbours(self._table, metadata)):
            listing = self._listed(metadata, probe=plan_store.write(beside), foreign=foreign)
            unknown = self._unknown_of(listing, plan_store)
        others = listing.not_ours.told()
        if others != beside.others:
            beside = replace(beside, others=others)
            plan_store.write(beside)
        before, orphans = plan_store.seen_before(), FoundOrphans(unknown=sum(map(len, unknown)))
        self._orphans = orphans
        now = before.then(chain.from_iterable(unknown), at=listing.at)
        if orphans.unknown or len(before):
            plan_store.remember(now)
        if not orphans.unknown:
            return NothingToDo(reason="every file below the table's folder is known, or too young")
        old_enough, wanted = Spool(), self._options.unknown_for
        for path, written_at in chain.from_iterable(unknown):
            time = before.unknown_for(path, written_at, at=listing.at)
            if time < wanted:
                orphans.longest = max(orphans.longest or time, time)
            elif len(old_enough) < MOST_LISTED:
                old_enough.add(path, written_at)
            else:
                orphans.also_old_enough += 1
        files = (DeletableFile(FileKind.ORPHAN, f"{metadata.location}/{path}") for path, _ in old_enough)
        until = orphans.waits_until(wanted, now=self._table.clock.now())
        left_over = max(orphans.also_old_enough, orphans.unknown - len(now)) if old_enough else 0
        return self._as_plan(plan_store.plan(beside, files, waits_until=until, left_over=left_over), metadata)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete the planned files that are listed again, are still old, and are not known to the current metadata."""
        metadata = self._table.metadata()
        plan_store = PlanStore.of(self._table, metadata)
        beside, pending = plan_store.pending(plan.on_timeline)
        require_permission(metadata)
        deleted = self._delete(beside, pending, metadata, plan_store) if pending.files else 0
        plan_store.complete(beside, pending)
        waiting = {} if self._orphans is None else {"files_unknown": self._orphans.unknown - pending.files}
        return {"files_deleted": deleted, **waiting}

    def _delete(self, beside: PlanBeside, pending: DeletionPlan, metadata: TableMetadata, plan_store: PlanStore) -> int:
        planned = plan_store.digests(pending, TableFolder(metadata.location))
        foreign = neighbours(self._table, metadata)
        listing = self._listed(metadata, probe=plan_store.begin(beside, pending), among=planned, foreign=foreign)
        deleted = 0
        for candidates in listing.candidates():
            spare = partial(self._spare, candidates, listing, plan_store)
            deleted += sum(delete(self._table, candidates, spare).values())
        return deleted

    def _listed(
        self,
        metadata: TableMetadata,
        *,
        probe: Probe,
        among: Digests | None = None,
        foreign: Mapping[str, str] | None = None,
    ) -> FolderListing:
        old = age_of_orphans(self._options, self._table.options).age
        now = self._table.clock.now()
        return listed(metadata, self._table.storage, older_than=old, probe=probe, now=now, among=among, foreign=foreign)

    def _unknown_of(self, listing: FolderListing, plan_store: PlanStore) -> Sequence[Spool]:
        """Return the files of a listing that the table does not know by now."""
        metadata, unknown = self._table.metadata(), []
        with lost_if_unmoved(self._table, metadata):
            for candidates in listing.candidates():
                self._spare(candidates, listing, plan_store, metadata)
                unknown.append(candidates.unknown())
        return unknown

    def _spare(
        self, candidates: Candidates, listing: FolderListing, plan_store: PlanStore, metadata: TableMetadata
    ) -> None:
        """Spare the files that the table knows, by metadata that was read after the listing."""
        if (metadata.uuid, metadata.location) != (plan_store.uuid, plan_store.location):
            raise PermanentError("the table was made again or moved while its folder was listed")
        lists = plan_store.pending_lists()
        spare_known(candidates, listing, metadata, self._options, self._table.storage, lists=lists)

    def _as_plan(self, plan: DeletionPlan, metadata: TableMetadata) -> Plan:
        """Return the plan as it is reported to the daemon. The budget counts all files that may be deleted, whatever
        number of runs they take.
        """
        files = plan.files + plan.left_over
        in_table = files_if_asked(self._table, metadata, unneeded=files)
        size = None if plan.left_over else PlanStore.of(self._table, metadata).bytes_of(plan)
        return Plan(instant=plan.instant, files_to_delete=files, bytes_to_delete=size, files_in_table=in_table)


@dataclass(kw_only=True, slots=True)
class FoundOrphans:
    """The result of a listing: how many files are `unknown`, the `longest` time for which a waiting file has been
    unknown, and how many are `also_old_enough` but too many for one list.
    """

    unknown: int
    longest: timedelta | None = None
    also_old_enough: int = 0

    def waits_until(self, unknown_for: timedelta, *, now: datetime) -> datetime | None:
        """Return when the first of the waiting files may be deleted. None if there are none."""
        if self.also_old_enough:
            return now
        return None if self.longest is None else now + unknown_for - self.longest


Orphans = program(OrphansSteps, OrphansOptions)
"""The orphans program. An abort leaves the plan pending, and deletes nothing."""
