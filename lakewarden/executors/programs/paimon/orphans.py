"""Orphans: files with names of Paimon's that nothing names are deleted. Execution and commit are one step.

Paimon's own `remove_orphan_files` trusts one listing and the age of files. Here a file must be old, unknown in the
listings of two runs that lie far apart, and still unknown right before its deletion. What names files is read before
the listing, after it, and before each batch of deletions. A kill leaves files that the next run finds again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.paimon.client.opened import OpenTable, program
from lakewarden.executors.programs.paimon.steps.disk import table_files
from lakewarden.executors.programs.paimon.steps.old_files import OldFile, OldFiles
from lakewarden.planners.formats.first_seen import FirstSeen, Life, content_of, first_seen
from lakewarden.planners.formats.paimon.deletion import orphans_beside
from lakewarden.planners.formats.paimon.deletion.known import KnownNames
from lakewarden.planners.formats.paimon.deletion.names import naming_of
from lakewarden.planners.formats.paimon.deletion.orphans_beside import LastRun
from lakewarden.planners.formats.paimon.metadata.heads import table_identity
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions, age_of_orphans, unknown_for
from lakewarden.planners.formats.paimon.options.table_options import own_options
from lakewarden.planners.model.errors import PermanentError, YieldError

_BATCH = 100
_LEAST_REST = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenFiles:
    """The files that may be deleted, the oldest first, and what waits: how many, and until when the first of them."""

    files: Sequence[OldFile]
    waiting: int
    waits_until: datetime | None


class OrphansSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: OrphansOptions) -> None:
        self._table = table
        self._location = table.table.location
        self._files = table_files(table)
        self._most = options.max_files
        table_options = own_options(table.table)
        self._age = age_of_orphans(options, table_options).age
        self._unknown_for = unknown_for(options, table_options)
        self._names_in_use = KnownNames(self._location, table.storage)
        self._created = ""
        self._chosen = ChosenFiles(files=(), waiting=0, waits_until=None)
        self._reach = functools.partial(points.reach, run=table.assignment.run, service=table.assignment.service)

    def plan(self) -> Plan | NothingToDo:
        """List the table's folder, and write down since when files are unknown. A file that the listings of earlier
        runs did not show must wait.
        """
        look = self._looked(PermanentError)
        self._created = _created(self._location, look)
        self._names_in_use.look()
        at = self._files.clock()
        before = min(at, self._table.clock.now()) - self._age
        listing = self._files.old(naming_of(look.facts.schema), before=before)
        self._names_in_use.look()
        self._chosen = self._remembered(listing, at)
        if self._chosen.files:
            return Plan(
                instant=None,
                files_to_delete=len(self._chosen.files),
                bytes_to_delete=sum(file.size for file in self._chosen.files),
                files_in_table=max(listing.files, len(self._chosen.files)),
            )
        self._complete()
        until = self._chosen.waits_until
        if until is None:
            return NothingToDo(reason="every file below the table's folder is known, too young, or none of Paimon's")
        return NothingToDo(
            reason=f"{self._chosen.waiting} unknown files must be unknown for longer, the first of them until "
            f"{until:%Y-%m-%d %H:%M:%S} UTC",
            again=max(_LEAST_REST, until - self._table.clock.now()),
        )

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete the planned files that are there as they were listed and that nothing names by now. Raises YieldError
        if the table was made again, or is of a kind by now that is left alone.
        """
        if _created(self._location, self._looked(YieldError)) != self._created:
            raise YieldError(f"the table in {self._location} was made again since its folder was listed")
        files = size = 0
        for begin in range(0, min(self._most, len(self._chosen.files)), _BATCH):
            points.require_wanted(self._table.assignment.run)
            self._table.require_jvm()
            self._names_in_use.look()
            batch = self._chosen.files[begin : min(begin + _BATCH, self._most)]
            gone = self._files.delete_unchanged([file for file in batch if file.name not in self._names_in_use])
            files += len(gone)
            size += sum(file.size for file in gone)
            self._reach(Point.DELETING)
        goes_on = bool(files) and len(self._chosen.files) > self._most
        self._table.require_jvm()
        if not goes_on:
            self._complete()
        figures = {"files_deleted": files, "bytes_deleted": size, "files_unknown": self._chosen.waiting}
        return {**figures, **({GOES_ON: 1} if goes_on else {})}

    def _looked(self, kind: type[PermanentError | YieldError]) -> Look:
        """Return the table as it is now. Raises `kind` if it is of one that is left alone."""
        self._files.require_own_folders()
        return self._table.free_look(kind)

    def _remembered(self, listing: OldFiles, at: datetime) -> ChosenFiles:
        """Remember the unknown files of a listing, and return those that were unknown for long enough. What was read
        of the table before and after the listing counts.
        """
        unknown = [file for file in listing.old if file.name not in self._names_in_use]
        life = Life(uuid=self._created, location=self._location)
        file = orphans_beside.seen_file_of(self._location)
        before = first_seen(file, self._table.storage, life=life)
        if unknown or len(before):
            now = before.then(((file.path, file.written_at) for file in unknown), at=at)
            self._files.write(file, content_of(now, life=life))
        old_enough = [file for file in unknown if self._time(file, before, at) >= self._unknown_for]
        longest = max(
            (time for file in unknown if (time := self._time(file, before, at)) < self._unknown_for), default=None
        )
        return ChosenFiles(
            files=sorted(old_enough, key=lambda old_file: (old_file.modified_ns, old_file.path)),
            waiting=len(unknown) - len(old_enough),
            waits_until=None if longest is None else self._table.clock.now() + self._unknown_for - longest,
        )

    def _time(self, old_file: OldFile, before: FirstSeen, at: datetime) -> timedelta:
        return before.unknown_for(old_file.path, old_file.written_at, at=at)

    def _complete(self) -> None:
        """Write down that a run came to its end, and what waits for the next one."""
        last = LastRun(
            created=self._created,
            at=self._table.clock.now(),
            waiting=self._chosen.waiting,
            waits_until=self._chosen.waits_until,
        )
        self._files.write(orphans_beside.file_of(self._location), orphans_beside.content_of(last))


def _created(location: str, look: Look) -> str:
    return table_identity(location, look.first).created


Orphans = program(OrphansSteps, OrphansOptions, deletes="orphans")
"""The program. An abort leaves everything as it is."""
