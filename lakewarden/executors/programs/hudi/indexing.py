"""Indexing: indexes of the metadata table are built, finished where an indexer has only planned them, or dropped.

A build is planned under the table's lock. Writers go on beside it: what they commit meanwhile Hudi adds before it lists
the index as complete (`RunIndexActionExecutor`), and until then nobody reads it. Nothing else of ours commits. A drop
takes an index out of the table's properties first, under the lock, and its files afterwards.

What somebody has begun to build is left alone: before Hudi 1.1 an indexer shows no heartbeat.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakewarden.executors.contract import Assignment, NothingToDo, Plan, Step, Steps
from lakewarden.executors.programs.hudi.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.look import pending_plan, planned_indexes
from lakewarden.executors.programs.hudi.opened import OpenTable, open_table
from lakewarden.planners.formats.hudi.indexes import COLUMNS, Indexes, read_indexes, switches, to_build, to_drop
from lakewarden.planners.formats.hudi.service_options import BuiltIndex, IndexingOptions
from lakewarden.planners.formats.hudi.table_properties import read_table_properties
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.ports import Storage

_MAY_TAKE = timedelta(minutes=10)
_UNTIL_SILENT = timedelta(minutes=3)
_BUILT = frozenset(str(name) for name in BuiltIndex)


class Indexing:
    """The indexing program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the write client for one run. An abort takes back a plan of ours that was not begun."""
        options = IndexingOptions.model_validate(dict(assignment.service_options))
        with open_table(session, assignment, storage, service={}, clock=self._clock) as table:
            steps = IndexingSteps(table, options)
            try:
                yield steps
            except Exception:
                steps.abort()
                raise


class IndexingSteps:
    """The three steps, of which the second does nothing."""

    def __init__(self, table: OpenTable, options: IndexingOptions) -> None:
        self._table = table
        self._options = options
        self._planned: str | None = None
        self._building: Sequence[str] = ()
        self._dropping: Sequence[str] = ()

    def plan(self) -> Plan | NothingToDo:
        """Take up the assigned plan, or plan the first index that is missing, or tell what is to be dropped."""
        if self._table.assignment.instant is not None:
            return self._taken_up(self._table.assignment.instant)
        complete = self._indexes().complete
        for name in to_build(self._options, complete):
            self._keep_up((name,))
            with translated(Step.PLAN):
                self._planned = self._table.client.schedule_index(name)
            if self._planned is not None:
                self._building = (name,)
                return Plan(instant=self._planned)
        self._dropping = to_drop(self._options, complete)
        if not self._dropping:
            return NothingToDo(reason="the table has the indexes that it should have")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: Hudi builds an index and completes it in one call."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Build what was planned, or drop what is still there."""
        self._table.before_a_commit()
        if plan.instant is None:
            dropped = to_drop(self._options, self._indexes().complete)
            with translated(Step.COMMIT):
                self._table.client.drop_indexes(dropped)
            return {"indexes_dropped": len(dropped)}
        self._keep_up(self._building)
        self._planned = None
        with translated(Step.COMMIT):
            self._table.client.java.index(plan.instant)
        return {"indexes_built": len(self._building)}

    def abort(self) -> None:
        """Take back a plan of ours that was not begun: it holds back every other service."""
        if self._planned is not None:
            with on_the_way_out("take the plan back"):
                self._table.withdraw(self._planned)

    def _taken_up(self, instant: str) -> Plan:
        """Return the plan of an indexer, or of an earlier run, that nobody has begun.

        Raises YieldError for one that somebody has, TemporaryError for what a dead JVM of ours has left half-way: Hudi
        undoes it when its heartbeat is silent.
        """
        pending = pending_plan(self._table.view(), Service.INDEXING, instant)
        if pending.state is State.INFLIGHT and self._table.assignment.predecessor_dead:
            with translated(Step.PLAN):
                self._table.client.java.lazyRollbackFailedIndexing()
            raise TemporaryError(f"indexing {instant} was left half-way, and is undone first", delay=_UNTIL_SILENT)
        if pending.state is State.INFLIGHT:
            raise YieldError(f"indexing {instant} was begun, perhaps by an indexer that lives", delay=_MAY_TAKE)
        self._building = planned_indexes(self._table.assignment, instant, self._table.storage)
        unknown = sorted(set(self._building) - _BUILT)
        if unknown and not (unknown == ["column_stats"] and self._table.options.conf.get(COLUMNS)):
            raise PermanentError(f"indexing {instant} builds {unknown[0]}, which only its own indexer can: run that")
        self._keep_up(self._building)
        return Plan(instant=instant)

    def _keep_up(self, building: Sequence[str]) -> None:
        """Let Hudi's client keep up what the table has, and what is being built."""
        indexes = self._indexes()
        self._table.client.keep_up(
            switches(Indexes(complete=indexes.complete | set(building), definitions=indexes.definitions))
        )

    def _indexes(self) -> Indexes:
        location, storage = self._table.assignment.location, self._table.storage
        return read_indexes(location, read_table_properties(location, storage), storage)
