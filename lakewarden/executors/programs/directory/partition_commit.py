"""Partition commit: a partition to which nothing is written any more gets a marker, a place in the metastore, or both.

The plan is a list of partitions in the memory of the worker. Nothing of it is written down, because the table and the
metastore show what is left to do. After a kill each act is done for a partition, or it is not, and the next run finds
what is left.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, assert_never

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, Assignment, NothingToDo, Plan, Steps
from lakewarden.executors.points import Point
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.directory.partition_list import partition_list_of, table_of
from lakewarden.executors.programs.directory.replacing.act import partitions_in_act
from lakewarden.planners.formats.directory.committing import (
    PartitionState,
    Rules,
    acts_left,
    due,
    judge,
    needs_of,
    rules_of,
)
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.walk import FreshListings, location_of
from lakewarden.planners.formats.directory.observing import kinds_of, looked_at, table_options
from lakewarden.planners.formats.directory.options import CommitAct, PartitionCommitOptions
from lakewarden.planners.formats.directory.writers import usual_interval
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, NotYetError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.empty_files import EmptyFiles, RefusedPlaceError, empty_files
from lakewarden.planners.storage.inside import Home

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(seconds=10)
_REST = timedelta(minutes=1)
"""A run that commits nothing is not repeated at once: what is in the way may stay, as a link out of the table does."""


@contextlib.contextmanager
def _opened(_session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
    """Open the directory for one run. An abort leaves everything as it is."""
    yield PartitionCommitSteps(assignment, table_of(assignment), storage, clock)


PartitionCommit = functools.partial(Bracket, opened=_opened)


class PartitionCommitSteps:
    """The three steps. The second does nothing."""

    def __init__(self, assignment: Assignment, table: Table, storage: Storage, clock: Clock) -> None:
        self._table, self._storage, self._clock = table, storage, clock
        self._options = table.options_of(Service.PARTITION_COMMIT, PartitionCommitOptions)
        acts = self._options.policy.acts
        self._markers = empty_files(table.location, storage)
        if self._markers is None and CommitAct.SUCCESS_FILE in acts:
            raise PermanentError(f"there is no way yet to write a marker into the store of {table.location}")
        self._there = partition_list_of(table) if CommitAct.METASTORE in acts else None
        if self._there is None and CommitAct.METASTORE in acts:
            raise PermanentError("options.metastore is not set: the policy metastore needs it")
        self._reach = functools.partial(points.reach, run=assignment.run, service=assignment.service)
        self._inside = Home(table.location, by_key=True)
        self._rules: Rules | None = None
        self._due: list[str] = []
        self._more = False
        self._in_act: Collection[str] = ()

    def plan(self) -> Plan | NothingToDo:
        """Look at all partitions, and choose those that are to be committed."""
        now = self._clock.now()
        folders = looked_at(self._table, self._storage, None, before=now, now=now).folders
        usual = usual_interval(folders.values())
        there = None if self._there is None else self._there.look(folders)
        self._rules = rules_of(folders, table_options(self._table), self._options, now, usual=usual, metastore=there)
        self._due = due(folders, self._rules, now)
        if not self._due:
            needs = needs_of(folders, self._rules, now)
            rest = _LEAST_REST if needs.changes_at is None else min(_REST, max(_LEAST_REST, needs.changes_at - now))
            return NothingToDo(reason=f"no partition is to be committed: {needs.summary}", again=rest)
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: each partition is looked at again right before its marker is written."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at each partition again, and commit it if it is still inactive.

        A partition that cannot be committed stops no other. The log names it. If none could be, the run ends with the
        error, and waits a minute if it is of single partitions alone.
        """
        looks = FreshListings(self._table.location, self._storage, kinds_of(self._table), self._clock)
        self._in_act = partitions_in_act(self._table.location, self._storage)
        tried, written, refusals = 0, 0, list[LakewardenError]()
        for path in self._due:
            if written == self._options.max_partitions:
                self._more = True
                break
            tried += 1
            try:
                written += self._commit(path, looks)
            except (PermanentError, StoreRefusedError) as refusal:
                refusals.append(refusal)
                log.warning("partition_not_committed", partition=printable(path), reason=str(refusal))
        if not written:
            for error in refusals:
                if not isinstance(error, RefusedPlaceError):  # the store refuses all of them
                    raise error
            why = str(refusals[0]) if refusals else "the log says why"
            raise NotYetError(f"no partition of the plan could be committed: {why}", delay=_REST)
        goes_on = {GOES_ON: 1} if self._more else {}
        return {"partitions_committed": written, "partitions_left": tried - written, **goes_on}

    def _commit(self, path: str, looks: FreshListings) -> bool:
        """Commit one partition; return False where that has to wait."""
        place = location_of(self._table.location, path)
        if path in self._in_act:
            log.info("partition_not_committed", partition=printable(path), reason="a compaction replaces its files")
            return False
        if (outside := self._inside.why_outside(place, whole_folder=True)) is not None:
            log.warning("partition_not_committed", partition=printable(path), reason=f"it {outside}")
            return False
        try:
            folder = self._due_now(path, looks, self._clock.now())
            return folder is not None and self._do_acts(path, f"{place}/{self._options.success_file_name}", folder)
        except FileNotFoundError:  # it was dropped meanwhile
            return False

    def _do_acts(self, path: str, marker: str, folder: Folder) -> bool:
        """Do what is left of the policy, in its order. If a marker does not appear, return False."""
        for act in acts_left(path, folder, self._planned()):
            match act:
                case CommitAct.METASTORE:
                    if self._there is not None:
                        self._there.commit(path, folder.changed_at)
                        self._reach(Point.LISTED)
                case CommitAct.SUCCESS_FILE:
                    if self._markers is None or not self._marked(self._markers, marker, folder):
                        return False
                case _:
                    assert_never(act)
        return True

    def _marked(self, markers: EmptyFiles, marker: str, folder: Folder) -> bool:
        written = markers.create(marker) if folder.marker is None else markers.renew(marker)
        self._reach(Point.MARKED)
        return written

    def _due_now(self, path: str, looks: FreshListings, now: datetime) -> Folder | None:
        """Return a partition if it is to be committed now. The folders above are looked at first."""
        rules = self._planned()
        above = list(looks.above(path))
        folder = looks.folder(path)
        verdict = judge(path, folder, above, rules, now)
        if verdict.state is PartitionState.DUE:
            return folder
        log.info("partition_not_committed", partition=printable(path), reason=verdict.reason)
        return None

    def _planned(self) -> Rules:
        if self._rules is None:
            raise PermanentError("there is no plan")
        return self._rules
