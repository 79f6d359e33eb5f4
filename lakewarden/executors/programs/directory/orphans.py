"""Orphans: what dead jobs have left in progress is deleted, so that it blocks its partition no more. Execution and
commit are one step.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.points import Point
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.directory.exchanging.own_folder import OwnFolder
from lakewarden.executors.programs.directory.exchanging.record import alone_in
from lakewarden.executors.programs.directory.exchanging.renames import Entry, entry_of, is_of_one_place
from lakewarden.executors.programs.directory.partition_list import relist_of, table_of
from lakewarden.executors.programs.directory.replacing.act import ObjectFiles
from lakewarden.planners.formats.directory.compacting import is_s3
from lakewarden.planners.formats.directory.expiring import age_of_orphans, with_orphans
from lakewarden.planners.formats.directory.listing.folders import (
    OURS,
    EntryKind,
    may_be_of_a_table,
    may_be_orphan,
    table_in,
)
from lakewarden.planners.formats.directory.listing.walk import location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options import OrphansOptions
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import NotYetError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage
from lakewarden.planners.storage.content import StoreRefusedError, listed
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.storage.objects import ObjectStorage

log = structlog.get_logger(__name__)

_RETRY = timedelta(hours=1)
_REST = timedelta(days=1)
_AT_ONCE = 16


class _Orphans:
    """What both ways have in common: what may be an orphan, and what was found of it. The second step does nothing."""

    def __init__(self, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        self._table, self._storage, self._clock = table, storage, clock
        self._options = table.options_of(Service.ORPHANS, OrphansOptions)
        self._kinds = kinds_of(table)
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._age = timedelta.max
        self._more = False

    def _suspects(self) -> tuple[Sequence[str], int]:
        """Return the paths of the folders that may hold orphans, and how many files there are in all."""
        age = age_of_orphans(table_options(self._table), self._options)
        if age is None:
            raise PermanentError(f"{self._table.location} has no options.restore_horizon: set it")
        self._age, now = age, self._clock.now()
        folders = looked_at(self._table, self._storage, None, before=now, now=now).folders
        return sorted(with_orphans(folders, age, now)), sum(folder.files + folder.staged for folder in folders.values())

    def _is_chosen(self, name: str, *, is_folder: bool) -> bool:
        return self._kinds(name) is EntryKind.STAGED and may_be_orphan(name, is_folder=is_folder)

    def _keep(self, file: str, why: str | None) -> None:
        log.warning("orphan_kept", table=self._table.id, file=printable(file), reason=why)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""


def _plan(chosen: Collection[FileEntry | Entry], files: int) -> Plan:
    return Plan(
        instant=None,
        files_to_delete=len(chosen),
        bytes_to_delete=sum(file.size for file in chosen),
        files_in_table=max(files, len(chosen)),
    )


# Orphans in an object store.
#
# Parts in progress that are uploads are seen by no listing. What is deleted here are the small objects beside them, and
# the folders of parts of Spark and Hive. No lock is needed: a compaction leaves a partition with such files alone, and
# a second run finds what is left.


class ObjectOrphansSteps(_Orphans):
    """The three steps."""

    def __init__(self, assignment: Assignment, table: Table, storage: ObjectStorage, clock: Clock) -> None:
        super().__init__(assignment, table, storage, clock)
        self._files = ObjectFiles(storage)
        self._chosen: dict[str, FileEntry] = {}

    def plan(self) -> Plan | NothingToDo:
        """Find the parts that are old enough, and the folders in which every file is."""
        paths, files = self._suspects()
        for path in paths:
            self._choose(location_of(self._table.location, path))
        if not self._chosen:
            return NothingToDo(reason="no part in progress is known to be an orphan", again=_REST)
        return _plan(self._chosen.values(), files)

    def _choose(self, place: str) -> None:
        """Add the orphans right below a folder, as far as the limit of a run allows."""
        entries = listed(place, self._storage, most=MOST_FILES)  # none if it was dropped meanwhile
        for file_entry in sorted(entries, key=lambda entry: entry.name):
            if not self._is_chosen(file_entry.name, is_folder=file_entry.is_folder):
                continue
            file = f"{place}/{file_entry.name}"
            parts = self._below(file) if file_entry.is_folder else {file: file_entry}
            if not parts or any(part.modified >= self._clock.now() - self._age for part in parts.values()):
                continue
            if len(self._chosen) + len(parts) > self._options.max_files and self._chosen:
                self._more = True
                return
            self._chosen |= parts

    def _below(self, folder: str) -> dict[str, FileEntry]:
        """Return all files below a folder of parts. The mark of a folder is none. Return nothing if a table of another
        format lies there.
        """
        files = self._files.below(folder).items()
        suspects: dict[str, set[str]] = {}
        for path, _ in files:
            levels = path.split("/")[:-1]
            for depth, level in enumerate(levels):
                if may_be_of_a_table(level):
                    suspects.setdefault("/".join([folder, *levels[:depth]]), set()).add(level)
        for place, names in suspects.items():
            if (table := table_in(place, names, self._storage)) is not None:
                self._keep(folder, f"it holds {table}")
                return {}
        return {f"{folder}/{path}": entry for path, entry in files if not path.endswith("/")}

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

    def _deleted(self, orphan: tuple[str, FileEntry]) -> int | None:
        """Delete a file, and return its size. None if it is gone, or another one by now."""
        file, seen = orphan
        try:
            why = None if self._files.delete_seen(file, seen) else "it has changed, or is gone"
        except StoreRefusedError as refused:
            why = str(refused)
        if why is not None:
            self._keep(file, why)
            return None
        self._reach(Point.DELETING)
        return seen.size


_T = TypeVar("_T")


@contextlib.contextmanager
def _opened(_session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
    """Open the directory for one run. An abort leaves everything as it is."""
    table = table_of(assignment)
    if is_s3(table.location, storage) and isinstance(storage, ObjectStorage):
        yield ObjectOrphansSteps(assignment, table, storage, clock)
        return
    elsewhere = f"orphans in the store of {table.location} cannot be looked at file by file"
    failed = f"orphans of {table.location} cannot be deleted now"
    with alone_in(table.location, storage, elsewhere=elsewhere, failed=failed):
        yield OrphansSteps(assignment, table, storage, clock)


Orphans = functools.partial(Bracket, opened=_opened)


class OrphansSteps(_Orphans):
    """The three steps, under the lock of the directory."""

    def __init__(self, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        super().__init__(assignment, table, storage, clock)
        self._own = OwnFolder(table.location, relist=relist_of(table))
        self._chosen: dict[str, Entry] = {}
        self._folders: list[str] = []

    def plan(self) -> Plan | NothingToDo:
        """Find the parts that are old enough, and the folders in which every file is."""
        self._own.end_earlier(self._reach)
        self._own.tidy()
        paths, files = self._suspects()
        inside = Home(self._table.location, private=(OURS,), by_key=True)
        for path in paths:
            place = location_of(self._table.location, path)
            if path and inside.why_outside(place, whole_folder=True) is not None:
                continue
            self._if_it_is_there(place, self._choose)
        if not self._chosen and not self._folders:
            return NothingToDo(reason="no part in progress is known to be an orphan", again=_REST)
        return _plan(self._chosen.values(), files)

    def _choose(self, place: str) -> None:
        """Add the orphans right below a folder, as far as the limit of a run allows."""
        with os.scandir(place) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not self._is_chosen(entry.name, is_folder=is_folder):
                continue
            parts = self._if_it_is_there(entry.path, self._below if is_folder else self._part)
            if parts is None:
                continue
            if len(self._chosen) + len(parts) > self._options.max_files and self._chosen:
                self._more = True
                return
            self._chosen |= parts
            if is_folder:
                self._folders.append(entry.path)

    def _if_it_is_there(self, place: str, look: Callable[[str], _T]) -> _T | None:
        """Look at a place. Return None if it is gone, because its job has ended, or if it is not shown to us."""
        try:
            return look(place)
        except FileNotFoundError:
            return None
        except OSError as refused:
            if not is_of_one_place(refused):
                raise
            self._keep(place, refused.strerror)
            return None

    def _part(self, place: str) -> dict[str, Entry] | None:
        """Return a file; None if it is too young, or no file."""
        status = os.lstat(place)
        return {place: entry_of(status)} if stat.S_ISREG(status.st_mode) and self._is_old(status) else None

    def _below(self, place: str) -> dict[str, Entry] | None:
        """Return all files below a folder of parts; None if one is too young, or something else than a file, or if a
        table of another format lies there.
        """
        files = dict[str, Entry]()
        for folder, below, names in os.walk(place, onerror=_raise):
            if not self._is_old(os.lstat(folder)):
                return None
            if (table := table_in(folder, below, self._storage)) is not None:
                self._keep(place, f"it holds {table}")
                return None
            for name in names:
                part = self._part(f"{folder}/{name}")
                if part is None:
                    return None
                files |= part
        return files

    def _is_old(self, status: os.stat_result) -> bool:
        return status.st_mtime < (self._clock.now() - self._age).timestamp()

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete each file that is still the one that was found. A folder that is not empty after that stays."""
        deleted, size = 0, 0
        for place, seen in self._chosen.items():
            try:
                if entry_of(os.lstat(place)) != seen:
                    self._keep(place, "it has changed")
                    continue
                os.unlink(place)  # noqa: PTH108 - a location, as all paths of this package
            except FileNotFoundError:
                continue
            except OSError as refused:
                if not is_of_one_place(refused):
                    raise
                self._keep(place, refused.strerror)
                continue
            deleted, size = deleted + 1, size + seen.size
            self._reach(Point.DELETING)
        folders = sum(_removed(folder) for folder in self._folders)
        if not (deleted or folders):
            raise NotYetError("no orphan of the plan could be deleted: the log says why", delay=_RETRY)
        goes_on = {GOES_ON: 1} if self._more else {}
        return {"files_deleted": deleted, "bytes_deleted": size, "folders_deleted": folders, **goes_on}


def _removed(place: str) -> bool:
    """Remove a folder with the empty folders in it, and return whether it is gone."""
    for folder, _, _ in os.walk(place, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106 - a location, as all paths of this package
    return not os.path.lexists(place)


def _raise(error: OSError) -> None:
    raise error
