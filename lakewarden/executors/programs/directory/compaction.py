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
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import structlog
from pyspark import inheritable_thread_target

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.points import Point
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.directory.exchanging.building import Exchange, publish
from lakewarden.executors.programs.directory.exchanging.ending import end_exchange
from lakewarden.executors.programs.directory.exchanging.own_folder import OwnFolder
from lakewarden.executors.programs.directory.exchanging.record import TIMEOUT, alone_in
from lakewarden.executors.programs.directory.exchanging.renames import NoFileError, entries, is_of_one_place
from lakewarden.executors.programs.directory.partition_list import partition_list_of, relist_of, table_of
from lakewarden.executors.programs.directory.replacing.act import (
    ActRecord,
    Acts,
    ObjectFiles,
    Replacement,
    Staging,
    staged,
)
from lakewarden.executors.programs.directory.replacing.ending import Road
from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError
from lakewarden.executors.programs.directory.rewriting.partition import Prepared, prepared, refuse_listed_above
from lakewarden.planners.formats.directory.compacting import (
    ActProgress,
    ActState,
    CompactionRules,
    CompactionState,
    compaction_needs,
    compaction_rules,
    due,
    judge,
    why_not_there,
)
from lakewarden.planners.formats.directory.listing.folders import OURS, Folder
from lakewarden.planners.formats.directory.listing.walk import FreshListings, location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options import CompactionOptions, Publication, marker_of
from lakewarden.planners.formats.directory.writers import usual_interval
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import NotYetError, PermanentError, YieldError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.storage.objects import ObjectStorage

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(seconds=10)
_REST = timedelta(hours=1)


class _Compaction:
    """What both ways have in common: which partitions are due, and which of them were refused."""

    def __init__(self, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        self._run, self._table, self._storage, self._clock = assignment.run, table, storage, clock
        self._options = table.options_of(Service.COMPACTION, CompactionOptions)
        self._kinds = kinds_of(table)
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._rules: CompactionRules | None = None
        self._due: list[str] = []
        self._refused: list[str] = []
        self._more = False

    def _folders(self) -> Mapping[str, Folder]:
        now = self._clock.now()
        return looked_at(self._table, self._storage, None, before=now, now=now).folders

    def _chosen(self, folders: Mapping[str, Folder], *, ended: str = "") -> Plan | NothingToDo:
        """Choose the partitions that are due, those with the most small files first."""
        now = self._clock.now()
        self._rules = compaction_rules(
            table_options(self._table), self._options, usual=usual_interval(folders.values())
        )
        if self._rules is None:
            raise PermanentError(f"{self._table.location} has no options.restore_horizon: set it")
        self._due = due(folders, self._rules, now)
        if not self._due:
            at = compaction_needs(folders, self._rules, now).changes_at
            rest = None if at is None else min(_REST, max(_LEAST_REST, at - now))
            return NothingToDo(reason=f"no partition is to be compacted{ended}", again=rest)
        first = self._due[: self._options.max_partitions]
        return Plan(instant=None, file_groups=len(first), bytes=sum(folders[path].small_bytes for path in first))

    def _looks(self) -> FreshListings:
        small = self._options.small_below
        return FreshListings(self._table.location, self._storage, self._kinds, self._clock, small_below=small)

    def _is_due(self, path: str, looks: FreshListings) -> bool:
        """Whether a partition is still to be compacted."""
        if self._rules is None:
            raise PermanentError("there is no plan")
        above = list(looks.above(path))
        verdict = judge(path, looks.folder(path), above, self._rules, self._clock.now())
        if verdict.state is not CompactionState.DUE:
            self._refuse(path, verdict.reason)
        return verdict.state is CompactionState.DUE

    def _refuse(self, path: str, why: str) -> None:
        self._refused.append(f"{printable(path)}: {why}")
        log.warning("partition_not_compacted", table=self._table.id, partition=printable(path), reason=why)

    def _figures(self, partitions: int, *, files: int, new_files: int, size: int) -> Mapping[str, int | float | str]:
        return {
            "partitions_compacted": partitions,
            "files_rewritten": files,
            "files_added": new_files,
            "bytes_rewritten": size,
            **({"partitions_refused": len(self._refused)} if self._refused else {}),
            **({GOES_ON: 1} if self._more else {}),
        }


# Compaction in an object store, which cannot exchange two folders. A table has to ask for one of two weaker ways.
#
# plan      take forward what an earlier run has begun; choose partitions, by a look at all
# execute   rewrite exactly the small files on this machine, compare both sides, and put the new files into a folder
#           that readers overlook
# commit    look at each partition again; if nothing has moved, write the journal and take the act as far as readers
#           allow


class ObjectCompactionSteps(_Compaction):
    """The three steps. The journal in the store keeps two runs apart, whatever daemon they are of."""

    def __init__(
        self, session: Any, assignment: Assignment, table: Table, storage: ObjectStorage, clock: Clock
    ) -> None:
        super().__init__(assignment, table, storage, clock)
        if (why := why_not_there(table.location, storage, self._options)) is not None:
            raise PermanentError(why)
        self._files = ObjectFiles(storage)
        self._acts = Acts(table.location, storage)
        self._listing = partition_list_of(table)
        self._leads = self._listing if self._options.publication is Publication.METASTORE else None
        self._sign = secrets.token_hex(8)
        self._road = Road(
            table=table.location,
            acts=self._acts,
            files=self._files,
            kinds=self._kinds,
            clock=clock,
            reach=self._reach,
            grace=self._options.reader_grace,
            leads=self._listing,
        )
        self._staging = Staging(
            session=session,
            files=self._files,
            home=self._acts.home(self._sign),
            sign=self._sign,
            options=self._options,
            kinds=self._kinds,
            marker=marker_of(table),
            by_metastore=self._leads is not None,
        )
        self._staged: list[Replacement] = []
        self._begun = False

    def plan(self) -> Plan | NothingToDo:
        """Take forward what an earlier run has begun. If that is over, choose partitions."""
        if (at := self._road.end_earlier()) is not None:
            return self._waits_until(at)
        folders, left = self._folders(), self._road.left()
        if self._listing is not None and (left or self._leads is not None):
            at = self._road.take_up(self._listing.look(folders).led_into(OURS), self._run)
            if at is not None:
                return self._waits_until(at)
        for act in left:
            self._road.clear(act)
        return self._chosen(folders)

    def _waits_until(self, at: datetime) -> NothingToDo:
        reason = f"readers of the folders that an earlier run has replaced are waited for, until {at:%H:%M:%S} UTC"
        return NothingToDo(reason=reason, again=at - self._clock.now())

    def execute(self, plan: Plan) -> None:
        """Write the new files of partitions into the folder of the act. One that is refused counts for none."""
        by_store: StoreRefusedError | None = None
        for path in self._due:
            if len(self._staged) == self._options.max_partitions:
                self._more = True
                break
            try:
                if self._leads is not None and not self._leads.holds(path):
                    raise NotRewrittenError("the metastore does not list it at its folder: no reader is led to it")
                refuse_listed_above(self._table.location, path, self._storage)
                self._staged.append(staged(self._staging, self._table.location, path, str(len(self._staged))))
            except (NotRewrittenError, PermanentError) as refusal:
                self._refuse(path, str(refusal))
            except StoreRefusedError as refusal:
                by_store = by_store or refusal
                self._refuse(path, str(refusal))
            except FileNotFoundError:
                self._refuse(path, "it was dropped or changed meanwhile")
        if not self._staged:
            raise by_store or NotYetError(f"no partition could be compacted: {self._refused[0]}", delay=_REST)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at each partition again, and let the act begin if nothing has moved since the plan."""
        looks = self._looks()
        self._staged = [replacement for replacement in self._staged if self._stands_still(replacement, looks)]
        if not self._staged:
            raise NotYetError(f"no partition of the plan could be compacted: {self._refused[0]}", delay=_LEAST_REST)
        by_metastore = self._leads is not None
        record = ActRecord(run=self._run, by_metastore=by_metastore, replacements=tuple(self._staged))
        self._acts.write(self._sign, record)
        state = ActState(
            act=self._sign,
            run=self._run,
            progress=ActProgress.STAGED,
            since=self._clock.now(),
            grace_seconds=self._options.reader_grace.total_seconds() if by_metastore else 0.0,
        )
        self._acts.begin(state)
        self._reach(Point.PROPOSED)
        if moved := [replacement.partition for replacement in self._staged if not self._is_as_it_was(replacement)]:
            self._acts.end()  # another run has had the act between the plan and now, or a writer has come back
            self._refuse(moved[0], "something in it has changed since the plan")
            raise NotYetError(self._refused[-1], delay=_LEAST_REST)
        first = ActProgress.POINTING if by_metastore else ActProgress.REPLACING
        self._acts.move(state.at(first, self._clock.now()))
        self._begun = True
        self._road.go_on()
        return self._figures(
            len(self._staged),
            files=sum(len(replacement.old) for replacement in self._staged),
            new_files=sum(len(replacement.new) for replacement in self._staged),
            size=sum(old.size for replacement in self._staged for old in replacement.old.values()),
        )

    def _stands_still(self, replacement: Replacement, looks: FreshListings) -> bool:
        """Whether a partition is as it was rewritten, and still to be compacted."""
        try:
            if not self._is_due(replacement.partition, looks):
                return False
        except FileNotFoundError:
            self._refuse(replacement.partition, "it was dropped meanwhile")
            return False
        if self._is_as_it_was(replacement):
            return True
        self._refuse(replacement.partition, "something in it has changed since the plan")
        return False

    def _is_as_it_was(self, replacement: Replacement) -> bool:
        """Whether the partition holds what was rewritten and what stays, and nothing else that readers see."""
        files = self._files.files_in(f"{self._table.location}/{replacement.partition}")
        before = {**replacement.old, **replacement.stay}
        return files.keys() == before.keys() and all(files[name].version == before[name].version for name in before)

    def abort(self) -> None:
        """Remove what was written beside, unless the act has begun: then the next run takes it forward."""
        if self._begun:
            return
        state = self._acts.current()
        if state is not None and state.act == self._sign:
            if state.progress is not ActProgress.STAGED:
                return
            try:
                self._acts.end()
            except YieldError:
                return
        self._road.clear(self._sign)


@contextlib.contextmanager
def opened(
    session: Any, assignment: Assignment, storage: Storage, clock: Clock, *, timeout: timedelta = TIMEOUT
) -> Iterator[Steps]:
    """Open the directory for one run. An abort removes what was written beside, and touches no partition. A run waits
    for another run in the directory for `timeout`.
    """
    table = table_of(assignment)
    options = table.options_of(Service.COMPACTION, CompactionOptions)
    if options.publication is not Publication.EXCHANGE:
        if not isinstance(storage, ObjectStorage):
            raise PermanentError(why_not_there(table.location, storage, options) or "it is not an object store")
        yield ObjectCompactionSteps(session, assignment, table, storage, clock)
        return
    alone = alone_in(
        table.location,
        storage,
        elsewhere=f"the store of {table.location} cannot exchange two folders in one act",
        failed=f"{table.location} cannot be compacted now",
        timeout=timeout,
    )
    with alone:
        steps = CompactionSteps(session, assignment, table, storage, clock)
        yield steps
        steps.abort()


Compaction = functools.partial(Bracket, opened=opened)


class CompactionSteps(_Compaction):
    """The three steps, under the lock of the directory."""

    def __init__(self, session: Any, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        super().__init__(assignment, table, storage, clock)
        self._session = session
        self._own = OwnFolder(table.location, relist=relist_of(table))
        self._prepared: list[Prepared] = []

    def plan(self) -> Plan | NothingToDo:
        """End what a killed run has begun, look at all partitions, and choose those that are to be compacted."""
        ended = self._own.end_earlier(self._reach)
        why = f", and {ended} exchanges of an earlier run were ended" if ended else ""
        return self._chosen(self._folders(), ended=why)

    def execute(self, plan: Plan) -> None:
        """Write the new files of partitions beside them, and compare both sides. A refused one counts for none."""
        self._own.require_exchange()
        due = iter(self._due)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:  # one core writes a file
            while wanted := list(islice(due, self._options.max_partitions - len(self._prepared))):
                works = [inheritable_thread_target(functools.partial(self._prepare, path)) for path in wanted]
                deque(threads.map(lambda work: work(), works), maxlen=0)
        self._more = next(due, None) is not None
        if not self._prepared:
            raise NotYetError(f"no partition could be compacted: {self._refused[0]}", delay=_REST)

    def _prepare(self, path: str) -> None:
        """Write the new files of one partition beside it, in a thread of its own, with the run's group and tag."""
        place = location_of(self._table.location, path)
        try:
            inside = Home(self._table.location, private=(OURS,), by_key=True)
            if (outside := inside.why_outside(place, whole_folder=True)) is not None or os.path.islink(place):  # noqa: PTH114 - a location
                raise NotRewrittenError(f"it {outside or 'is a link'}")
            refuse_listed_above(self._table.location, path, self._storage)
            exchange = Exchange(
                home=self._own.new(),
                table=self._table.location,
                partition=path,
                run=self._run,
                old=entries(place),
            )
            marker = marker_of(self._table)
            self._prepared.append(prepared(self._session, exchange, self._kinds, self._options, marker))
        except (NotRewrittenError, NoFileError, PermanentError) as refusal:
            self._refuse(path, str(refusal))
        except FileNotFoundError:
            self._refuse(path, "it was dropped or changed meanwhile")
        except OSError as error:
            if error.errno != errno.EMLINK and not is_of_one_place(error):
                raise
            self._refuse(path, f"it cannot be rewritten in {OURS}: {error.strerror}")

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at each partition again, and exchange its folder if nothing has moved since the plan."""
        looks = self._looks()
        compacted, files, new_files, size = 0, 0, 0, 0
        for work in self._prepared:
            try:
                if not self._stands_still(work, looks) or not publish(work.exchange, self._reach):
                    continue
            except (FileNotFoundError, NoFileError):
                self._refuse(work.exchange.partition, "it was dropped or changed meanwhile")
                continue
            except OSError as error:
                if not is_of_one_place(error):
                    raise
                self._refuse(work.exchange.partition, f"its folder cannot be exchanged: {error.strerror}")
                continue
            compacted, files = compacted + 1, files + work.files
            new_files, size = new_files + work.new_files, size + work.bytes
        if not compacted:
            raise NotYetError("no partition of the plan could be compacted: the log says why", delay=_LEAST_REST * 6)
        return self._figures(compacted, files=files, new_files=new_files, size=size)

    def _stands_still(self, work: Prepared, looks: FreshListings) -> bool:
        """Whether a partition is as the plan has seen it, and still to be compacted."""
        path = work.exchange.partition
        if not self._is_due(path, looks):
            return False
        if entries(work.exchange.place) != work.exchange.old:
            self._refuse(path, "something in it has changed since the plan")
            return False
        return True

    def abort(self) -> None:
        """Remove what was written beside. An exchange that was begun is ended, or waits for the next run."""
        for work in self._prepared:
            if Path(work.exchange.home).is_dir():
                end_exchange(self._table.location, work.exchange.home, self._reach)
        self._own.tidy()
