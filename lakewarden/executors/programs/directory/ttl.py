"""TTL: partitions with a time that is long ago are deleted, each as a whole. Execution and commit are one step."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.directory.exchanging.ending import drop
from lakewarden.executors.programs.directory.exchanging.own_folder import OwnFolder
from lakewarden.executors.programs.directory.exchanging.record import alone_in
from lakewarden.executors.programs.directory.exchanging.renames import Entry, NoFileError, entries, is_of_one_place
from lakewarden.executors.programs.directory.partition_list import partition_list_of, relist_of, table_of
from lakewarden.planners.formats.directory.expiring import ExpiryTerm, expired, term_of, ttl_needs, why_kept
from lakewarden.planners.formats.directory.listing.folders import DROP, OURS
from lakewarden.planners.formats.directory.listing.walk import FreshListings, location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options import TtlOptions
from lakewarden.planners.formats.directory.writers import usual_interval
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import NotYetError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.empty_files import RefusedPlaceError
from lakewarden.planners.storage.inside import Home

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(seconds=10)
_REST = timedelta(hours=1)


@contextlib.contextmanager
def _opened(_session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
    """Open the directory for one run. An abort leaves everything as it is."""
    table = table_of(assignment)
    elsewhere = f"partitions in the store of {table.location} cannot be moved away in one act"
    failed = f"partitions of {table.location} cannot be deleted now"
    with alone_in(table.location, storage, elsewhere=elsewhere, failed=failed):
        yield TtlSteps(assignment, table, storage, clock)


Ttl = functools.partial(Bracket, opened=_opened)


class TtlSteps:
    """The three steps, under the lock of the directory. The second does nothing."""

    def __init__(self, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        self._assignment = assignment
        self._table = table
        self._storage = storage
        self._clock = clock
        self._options = table.options_of(Service.TTL, TtlOptions)
        self._listing = partition_list_of(table)
        self._own = OwnFolder(table.location, relist=relist_of(table))
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._term: ExpiryTerm | None = None
        self._chosen: dict[str, Mapping[str, Entry]] = {}
        self._more = False

    def plan(self) -> Plan | NothingToDo:
        """End what a killed run has begun, look at all partitions, and choose those that have expired, by their
        files.
        """
        self._own.end_earlier(self._reach)
        self._own.tidy()
        if self._listing is not None:
            self._listing.require_there()
        now = self._clock.now()
        folders = looked_at(self._table, self._storage, None, before=now, now=now).folders
        usual = usual_interval(folders.values())
        self._term = term_of(table_options(self._table), self._options, usual=usual)
        if self._term is None:
            raise PermanentError("services.ttl.options.retain is not set")
        paths = expired(folders, self._term, now)
        inside = Home(self._table.location, private=(OURS,), by_key=True)
        for path in paths:
            if len(self._chosen) == self._options.max_partitions:
                self._more = True
                break
            place = location_of(self._table.location, path)
            outside = "is a link" if os.path.islink(place) else inside.why_outside(place, whole_folder=True)  # noqa: PTH114 - a location
            try:
                if outside is not None:
                    self._keep(path, f"it {outside}")
                else:
                    self._chosen[path] = entries(place)
            except (NoFileError, FileNotFoundError) as strange:
                self._keep(path, str(strange))
        if not self._chosen:
            at = ttl_needs(folders, self._term, now).changes_at
            rest = _REST if paths or at is None else min(_REST, max(_LEAST_REST, at - now))
            return NothingToDo(reason="no partition that can be deleted has expired", again=rest)
        return Plan(
            instant=None,
            partitions_to_delete=len(self._chosen),
            files_to_delete=sum(map(len, self._chosen.values())),
            bytes_to_delete=sum(file.size for part in self._chosen.values() for file in part.values()),
            files_in_table=sum(folder.files for folder in folders.values()),
        )

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at each partition again, and delete it if it is as the plan has counted it."""
        looks = FreshListings(self._table.location, self._storage, kinds_of(self._table), self._clock)
        partitions, files, size = 0, 0, 0
        for path, old in self._chosen.items():
            try:
                if self._is_kept(path, old, looks):
                    continue
                run, home, listing = self._assignment.run, self._own.new(DROP), self._listing
                if drop(self._table.location, home, path, run=run, old=old, reach=self._reach, listing=listing):
                    partitions, files = partitions + 1, files + len(old)
                    size += sum(file.size for file in old.values())
            except (NoFileError, FileNotFoundError, RefusedPlaceError) as strange:
                self._keep(path, str(strange))
            except OSError as refused:
                if not is_of_one_place(refused):
                    raise
                self._keep(path, f"{refused.filename} cannot be moved or deleted: {refused.strerror}")
        self._own.tidy()
        if not partitions:
            raise NotYetError("no partition of the plan could be deleted: the log says why", delay=_REST)
        goes_on = {GOES_ON: 1} if self._more else {}
        return {"partitions_deleted": partitions, "files_deleted": files, "bytes_deleted": size, **goes_on}

    def _is_kept(self, path: str, old: Mapping[str, Entry], looks: FreshListings) -> bool:
        if self._term is None:
            raise PermanentError("there is no plan")
        above = list(looks.above(path))
        why = why_kept(path, looks.folder(path), above, self._term, self._clock.now())
        if why is None and entries(location_of(self._table.location, path)) != old:
            why = "something in it has changed since the plan"
        if why is not None:
            self._keep(path, why)
        return why is not None

    def _keep(self, path: str, why: str) -> None:
        log.warning("partition_not_deleted", table=self._table.id, partition=printable(path), reason=why)
