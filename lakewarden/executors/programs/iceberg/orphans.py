"""Orphans: files below the table's folder that nothing knows are deleted. Its execution is joined with its commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakewarden.executors.contract import Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, open_table
from lakewarden.executors.programs.iceberg.steps.deleting import Journal, delete, files_if_asked, require_permission
from lakewarden.planners.formats.iceberg.deletion.orphan_files import Listing, Probe, listed, spare_known
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan
from lakewarden.planners.formats.iceberg.deletion.reachable import NamedFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.ages import age_of_orphans
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage


class Orphans:
    """The orphans program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table for one run. An abort leaves the plan pending, and deletes nothing."""
        with open_table(session, assignment, storage, clock=self._clock) as table:
            yield OrphansSteps(table)


class OrphansSteps:
    """The three steps, of which the second does nothing: each of the others lists the whole folder."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._options = OrphansOptions.model_validate(dict(table.assignment.service_options))
        self._unknown: int | None = None

    def plan(self) -> Plan | NothingToDo:
        """Take up the pending plan; without one, list the folder and write down what nothing knows.

        What the listings of earlier runs did not show as unknown waits: then the plan leaves it out, and may be empty,
        so that the run counts and the next one comes in its time.
        """
        metadata = self._table.metadata()
        require_permission(metadata)
        journal = Journal.of(self._table, metadata)
        beside = journal.read()
        if beside.pending is not None:
            if journal.listed(beside.pending) is not None:
                return self._told(beside.pending, metadata)
            journal.forget(beside)
            beside = journal.read()
        elif self._table.assignment.instant is not None:
            return NothingToDo(reason=f"{self._table.assignment.instant} is not pending any more")
        listing = self._listed(metadata, probe=journal.write(beside))
        self._spare(listing, journal, self._table.metadata())
        before, unknown = journal.seen_before(), listing.unknown()
        self._unknown = len(unknown)
        if unknown or len(before):
            journal.remember(before.then(unknown, at=listing.at))
        if not unknown:
            return NothingToDo(reason="every file below the table's folder is known, or too young")
        times = {path: before.unknown_for(path, at, at=listing.at) for path, at in unknown.items()}
        wanted = self._options.unknown_for
        ripe = [file for file in listing.suspects.files() if times[file.path] >= wanted]
        longest = max((time for time in times.values() if time < wanted), default=None)
        until = None if longest is None else self._table.clock.now() + wanted - longest
        return self._told(journal.plan(beside, ripe, waits_until=until), metadata)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete what was listed, is listed again, is still old, and is not known to the metadata of now."""
        metadata = self._table.metadata()
        journal = Journal.of(self._table, metadata)
        beside, pending, files = journal.to_carry_out(plan.on_timeline)
        require_permission(metadata)
        deleted = self._delete(files, metadata, journal, probe=journal.begin(beside, pending)) if files else 0
        journal.complete(beside, pending)
        waiting = {} if self._unknown is None else {"files_unknown": self._unknown - len(files)}
        return {"files_deleted": deleted, **waiting}

    def _delete(self, files: Sequence[NamedFile], metadata: TableMetadata, journal: Journal, *, probe: Probe) -> int:
        listing = self._listed(metadata, probe=probe).among(files)
        gone = delete(self._table, listing.suspects, lambda current: self._spare(listing, journal, current))
        return sum(gone.values())

    def _listed(self, metadata: TableMetadata, *, probe: Probe) -> Listing:
        old = age_of_orphans(self._options, self._table.options).age
        return listed(metadata, self._table.storage, older_than=old, probe=probe, now=self._table.clock.now())

    def _spare(self, listing: Listing, journal: Journal, metadata: TableMetadata) -> None:
        """Let go of what the table knows, by metadata that was read after the listing."""
        if (metadata.uuid, metadata.location) != (journal.uuid, journal.location):
            raise PermanentError("the table was made again or moved while its folder was listed")
        lists = journal.pending_lists()
        spare_known(listing, metadata, self._options, self._table.storage, lists=lists)

    def _told(self, plan: DeletionPlan, metadata: TableMetadata) -> Plan:
        in_table = files_if_asked(self._table, metadata, unneeded=plan.files)
        return Plan(instant=plan.instant, files_to_delete=plan.files, files_in_table=in_table)
