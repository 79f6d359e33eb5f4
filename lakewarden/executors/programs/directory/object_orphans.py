"""Orphans in an object store: what dead jobs have left in progress is deleted. Execution and commit are one step.

Parts in progress that are uploads are seen by no listing. What is deleted here are the small objects beside them, and
the folders of parts of Spark and Hive. No lock is needed: a compaction leaves a partition with such files alone, and a
second run finds what is left.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.replacing.object_files import ObjectFiles
from lakewarden.planners.formats.directory.expiring.orphans import age_of_orphans, with_orphans
from lakewarden.planners.formats.directory.listing.names import EntryKind, may_be_orphan
from lakewarden.planners.formats.directory.listing.tables import may_be_of_a_table, table_in
from lakewarden.planners.formats.directory.listing.walk import location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options.options_of import options_of
from lakewarden.planners.formats.directory.options.orphans_options import OrphansOptions
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import NotYetError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import MOST_FILES, FileEntry
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.objects import ObjectStorage

log = structlog.get_logger(__name__)

_RETRY = timedelta(hours=1)
_REST = timedelta(days=1)
_AT_ONCE = 16


class ObjectOrphansSteps:
    """The three steps. The second does nothing."""

    def __init__(self, assignment: Assignment, table: Table, storage: ObjectStorage, clock: Clock) -> None:
        self._table, self._storage, self._clock = table, storage, clock
        self._options = options_of(table, Service.ORPHANS, OrphansOptions)
        self._kinds = kinds_of(table)
        self._files = ObjectFiles(storage)
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._chosen: dict[str, FileEntry] = {}
        self._more = False

    def plan(self) -> Plan | NothingToDo:
        """Find the parts that are old enough, and the folders in which every file is."""
        age = age_of_orphans(table_options(self._table), self._options)
        if age is None:
            raise PermanentError(f"{self._table.location} has no options.restore_horizon: set it")
        now = self._clock.now()
        folders = looked_at(self._table, self._storage, None, before=now, now=now).folders
        for path in sorted(with_orphans(folders, age, now)):
            self._choose(location_of(self._table.location, path), age)
        if not self._chosen:
            return NothingToDo(reason="no part in progress is known to be an orphan", again=_REST)
        files = sum(folder.files + folder.staged for folder in folders.values())
        return Plan(
            instant=None,
            files_to_delete=len(self._chosen),
            files_in_table=max(files, len(self._chosen)),
        )

    def _choose(self, place: str, age: timedelta) -> None:
        """Add the orphans right below a folder, as far as the limit of a run allows."""
        try:
            found = self._storage.listing(place, most=MOST_FILES)
        except FileNotFoundError:  # it was dropped meanwhile
            return
        for one in sorted(found, key=lambda one: one.name):
            if self._kinds(one.name) is not EntryKind.STAGED or not may_be_orphan(one.name, is_folder=one.is_folder):
                continue
            file = f"{place}/{one.name}"
            parts = self._below(file) if one.is_folder else {file: one}
            if not parts or any(part.modified >= self._clock.now() - age for part in parts.values()):
                continue
            if len(self._chosen) + len(parts) > self._options.max_files and self._chosen:
                self._more = True
                return
            self._chosen |= parts

    def _below(self, folder: str) -> dict[str, FileEntry]:
        """Return all files below a folder of parts. The mark of a folder is none. Return nothing if a table of another
        format lies there.
        """
        found = self._files.below(folder).items()
        suspects: dict[str, set[str]] = {}
        for path, _ in found:
            levels = path.split("/")[:-1]
            for depth, level in enumerate(levels):
                if may_be_of_a_table(level):
                    suspects.setdefault("/".join([folder, *levels[:depth]]), set()).add(level)
        for place, names in suspects.items():
            if (table := table_in(place, names, self._storage)) is not None:
                log.warning("orphan_kept", table=self._table.id, file=printable(folder), reason=f"it holds {table}")
                return {}
        return {f"{folder}/{path}": one for path, one in found if not path.endswith("/")}

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete each file that is still the one that was found."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as threads:
            try:
                sizes = list(threads.map(self._deleted, self._chosen.items()))
            finally:
                threads.shutdown(cancel_futures=True)
        gone = [size for size in sizes if size is not None]
        if not gone:
            raise NotYetError("no orphan of the plan could be deleted: the log says why", delay=_RETRY)
        goes_on = {GOES_ON: 1} if self._more else {}
        return {"files_deleted": len(gone), "bytes_deleted": sum(gone), **goes_on}

    def _deleted(self, one: tuple[str, FileEntry]) -> int | None:
        """Delete a file, and return its size. None if it is gone, or another one by now."""
        file, seen = one
        try:
            why = None if self._files.delete_seen(file, seen) else "it has changed, or is gone"
        except StoreRefusedError as refused:
            why = str(refused)
        if why is not None:
            log.warning("orphan_kept", table=self._table.id, file=printable(file), reason=why)
            return None
        self._reach(Point.DELETING)
        return seen.size
