"""Compaction: the small files of an inactive partition become few large ones. The partition's folder is exchanged for
one with the new files, in one act of the kernel.

plan      choose partitions, by a look at all
execute   link exactly the small files, rewrite them beside, compare both sides
commit    look at each partition again; if nothing has moved, write the journal and exchange the folders
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.programs.bracket import undertaken
from lakewarden.executors.programs.directory.exchanging.building import Exchange, publish
from lakewarden.executors.programs.directory.exchanging.ending import end_exchange
from lakewarden.executors.programs.directory.exchanging.entries import NoFileError, entries
from lakewarden.executors.programs.directory.exchanging.lock import TIMEOUT, alone_in
from lakewarden.executors.programs.directory.exchanging.own_folder import OwnFolder
from lakewarden.executors.programs.directory.exchanging.renames import is_of_one_place
from lakewarden.executors.programs.directory.object_compaction import ObjectCompactionSteps
from lakewarden.executors.programs.directory.partition_list import relist_of
from lakewarden.executors.programs.directory.rewriting.partition import Prepared, prepared, refuse_listed_above
from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.executors.programs.directory.table_of import table_of
from lakewarden.planners.formats.directory.compacting.needs import compaction_needs, due
from lakewarden.planners.formats.directory.compacting.places import why_not_there
from lakewarden.planners.formats.directory.compacting.rules import (
    CompactionRules,
    CompactionState,
    compaction_rules,
    judge,
)
from lakewarden.planners.formats.directory.listing.again import FreshListings
from lakewarden.planners.formats.directory.listing.names import OURS
from lakewarden.planners.formats.directory.listing.walk import location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions, Publication
from lakewarden.planners.formats.directory.options.marker import marker_of
from lakewarden.planners.formats.directory.options.options_of import options_of
from lakewarden.planners.formats.directory.writers.activity import usual_interval
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import NotYetError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.storage.objects import ObjectStorage

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(seconds=10)
_REST = timedelta(hours=1)
"""A run that compacts nothing is not repeated at once: what is in the way stays in the files."""


class Compaction:
    """The program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None, timeout: timedelta = TIMEOUT) -> None:
        """Prepare the program. A run waits for another run in the directory for `timeout`."""
        self._clock = clock or SystemClock()
        self._timeout = timeout

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the directory for one run. An abort removes what was written beside, and touches no partition."""
        table = table_of(assignment)
        options = options_of(table, Service.COMPACTION, CompactionOptions)
        if options.publication is not Publication.EXCHANGE:
            if not isinstance(storage, ObjectStorage):
                raise PermanentError(why_not_there(table.location, storage, options) or "it is no object store")
            with undertaken(ObjectCompactionSteps(session, assignment, table, storage, self._clock)) as there:
                yield there
            return
        alone = alone_in(
            table.location,
            storage,
            elsewhere=f"the store of {table.location} cannot exchange two folders in one act",
            failed=f"{table.location} cannot be compacted now",
            timeout=self._timeout,
        )
        with alone, undertaken(CompactionSteps(session, assignment, table, storage, self._clock)) as steps:
            yield steps
            steps.abort()


class CompactionSteps:
    """The three steps, under the lock of the directory."""

    def __init__(self, session: Any, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        self._session = session
        self._run = assignment.run
        self._table = table
        self._storage = storage
        self._clock = clock
        self._options = options_of(table, Service.COMPACTION, CompactionOptions)
        self._own = OwnFolder(table.location, relist=relist_of(table))
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._rules: CompactionRules | None = None
        self._due: list[str] = []
        self._prepared: list[Prepared] = []
        self._refused: list[str] = []
        self._ended_earlier = 0
        self._more = False

    def plan(self) -> Plan | NothingToDo:
        """End what a killed run has begun, look at all partitions, and choose those that are to be compacted."""
        self._ended_earlier = self._own.end_earlier(self._reach)
        now = self._clock.now()
        folders = looked_at(self._table, self._storage, None, before=now, now=now).folders
        usual = usual_interval(folders.values())
        self._rules = compaction_rules(table_options(self._table), self._options, usual=usual)
        if self._rules is None:
            raise PermanentError(f"{self._table.location} has no options.restore_horizon: set it")
        self._due = due(folders, self._rules, now)
        if not self._due:
            return self._nothing(compaction_needs(folders, self._rules, now).changes_at)
        first = self._due[: self._options.max_partitions]
        return Plan(instant=None, file_groups=len(first), bytes=sum(folders[path].small_bytes for path in first))

    def _nothing(self, changes_at: Any) -> NothingToDo:
        ended = f", and {self._ended_earlier} exchanges of an earlier run were ended" if self._ended_earlier else ""
        rest = None if changes_at is None else min(_REST, max(_LEAST_REST, changes_at - self._clock.now()))
        return NothingToDo(reason=f"no partition is to be compacted{ended}", again=rest)

    def execute(self, plan: Plan) -> None:
        """Write the new files of partitions beside them, and compare both sides. A refused one counts for none."""
        inside = Home(self._table.location, private=(OURS,), by_key=True)
        self._own.require_exchange()
        kinds, marker = kinds_of(self._table), marker_of(self._table)
        for path in self._due:
            if len(self._prepared) == self._options.max_partitions:
                self._more = True
                break
            place = location_of(self._table.location, path)
            try:
                if (outside := inside.why_outside(place, whole_folder=True)) is not None or os.path.islink(place):  # noqa: PTH114 - a location
                    raise NotRewrittenError(f"it {outside or 'is a link'}")
                refuse_listed_above(self._table.location, path, self._storage)
                one = Exchange(
                    home=self._own.new(),
                    table=self._table.location,
                    partition=path,
                    run=self._run,
                    old=entries(place),
                )
                self._prepared.append(prepared(self._session, one, kinds, self._options, marker))
            except (NotRewrittenError, NoFileError, PermanentError) as refusal:
                self._refuse(path, str(refusal))
            except FileNotFoundError:
                self._refuse(path, "it was dropped or changed meanwhile")
            except OSError as error:
                if error.errno != errno.EMLINK and not is_of_one_place(error):
                    raise
                self._refuse(path, f"it cannot be rewritten in {OURS}: {error.strerror}")
        if not self._prepared:
            raise NotYetError(f"no partition could be compacted: {self._refused[0]}", delay=_REST)

    def _refuse(self, path: str, why: str) -> None:
        self._refused.append(f"{printable(path)}: {why}")
        log.warning("partition_not_compacted", table=self._table.id, partition=printable(path), reason=why)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at each partition again, and exchange its folder if nothing has moved since the plan."""
        kinds, small = kinds_of(self._table), self._options.small_below
        looks = FreshListings(self._table.location, self._storage, kinds, self._clock, small_below=small)
        compacted, files, new_files, size = 0, 0, 0, 0
        for one in self._prepared:
            try:
                if not self._stands_still(one, looks) or not publish(one.exchange, self._reach):
                    continue
            except (FileNotFoundError, NoFileError):
                self._refuse(one.exchange.partition, "it was dropped or changed meanwhile")
                continue
            except OSError as error:
                if not is_of_one_place(error):
                    raise
                self._refuse(one.exchange.partition, f"its folder cannot be exchanged: {error.strerror}")
                continue
            compacted, files = compacted + 1, files + one.files
            new_files, size = new_files + one.new_files, size + one.bytes
        if not compacted:
            raise NotYetError("no partition of the plan could be compacted: the log says why", delay=_LEAST_REST * 6)
        goes_on = {GOES_ON: 1} if self._more else {}
        refused = {"partitions_refused": len(self._refused)} if self._refused else {}
        return {
            "partitions_compacted": compacted,
            "files_replaced": files,
            "files_written": new_files,
            "bytes_rewritten": size,
            **refused,
            **goes_on,
        }

    def _stands_still(self, one: Prepared, looks: FreshListings) -> bool:
        """Whether a partition is as the plan has seen it, and still to be compacted."""
        path = one.exchange.partition
        if self._rules is None:
            raise PermanentError("there is no plan")
        above = list(looks.above(path))
        verdict = judge(path, looks.folder(path), above, self._rules, self._clock.now())
        if verdict.state is not CompactionState.DUE:
            self._refuse(path, verdict.reason)
            return False
        if entries(one.exchange.place) != one.exchange.old:
            self._refuse(path, "something in it has changed since the plan")
            return False
        return True

    def abort(self) -> None:
        """Remove what was written beside. An exchange that was begun is ended, or waits for the next run."""
        for one in self._prepared:
            if Path(one.exchange.home).is_dir():
                end_exchange(self._table.location, one.exchange.home, self._reach)
        self._own.tidy()
