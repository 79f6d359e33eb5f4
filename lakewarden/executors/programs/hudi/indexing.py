"""Indexing: indexes of the metadata table are built or dropped. An index that an indexer only planned is finished.

An index is built in one hold of the table's lock, in a moment without a write in flight. Hudi takes what is committed
beside a build for indexed, and it is not (docs/hudi.md). The index is listed in the table's properties only when it is
complete. Until then it is neither read nor kept up. A drop takes an index out of the properties first, under the lock,
and deletes its files afterwards.

A build that was begun is left alone: before Hudi 1.1 an indexer shows no heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.observing import pending_plan, planned_indexes
from lakewarden.executors.programs.hudi.client.opened import OpenTable, program
from lakewarden.executors.programs.hudi.steps.gaps import alone_between_writes, refuse_what_stops_a_build
from lakewarden.executors.programs.hudi.steps.listings import Listings
from lakewarden.planners.formats.hudi.indexes.indexes import (
    COLUMNS,
    Definition,
    Indexes,
    at_once,
    read_indexes,
    switches,
    to_build,
    to_drop,
)
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.options.service_options import BuiltIndex, IndexingOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import format_size, shown

_MAY_TAKE = timedelta(minutes=10)
_UNTIL_SILENT = timedelta(minutes=3)
_UNTIL_A_GAP = timedelta(minutes=1)
_STATS = "column_stats"
_OF_KEYS = "record_index"
_BUILT = frozenset({*map(str, BuiltIndex), "partition_stats"})


class IndexingSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: IndexingOptions) -> None:
        self._table = table
        self._options = options
        self._building: Sequence[str] = ()

    def plan(self) -> Plan | NothingToDo:
        """Take up the assigned plan, or say what is to be built, or else what is to be dropped."""
        if self._table.assignment.instant is not None:
            return self._taken_up(self._table.assignment.instant)
        self._building = at_once(to_build(self._options, self._table.properties()))
        if self._building:
            self._judge(self._building)
            refuse_what_stops_a_build(self._table, self._table.view())
        elif not to_drop(self._options, self._indexes().complete):
            return NothingToDo(reason="the table has the indexes that it should have")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: Hudi builds an index and completes it in one call."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Build the missing indexes, or drop the unwanted ones. Raises YieldError beside a write in flight."""
        self._table.before_a_commit()
        if not self._building:
            dropped = to_drop(self._options, self._indexes().complete)
            with translated(Step.COMMIT):
                self._table.client.drop_indexes(dropped)
            return {"indexes_dropped": len(dropped)}
        with alone_between_writes(self._table, _in_flight, why=_why, within=_UNTIL_A_GAP) as view:
            began = self._table.clock.monotonic()
            self._build(plan, view)
            held = self._table.clock.monotonic() - began
        missing = sorted(set(self._building) - self._indexes().complete)
        if missing:
            raise TemporaryError(f"Hudi has not built {missing[0]}: the worker's log says why")
        more = {GOES_ON: 1} if plan.instant is None and to_build(self._options, self._table.properties()) else {}
        return {"indexes_built": len(self._building), "lock_held_seconds": round(held, 3), **more}

    def _build(self, plan: Plan, view: TableView) -> None:
        """To be called under the lock."""
        client, indexes = self._table.client, self._indexes()
        definitions = dict(indexes.definitions)
        if _STATS not in indexes.complete and self._options.columns:
            definitions[_STATS] = Definition(columns=self._options.columns)
        kept_up = switches(Indexes(complete=indexes.complete | set(self._building), definitions=definitions))
        with translated(Step.COMMIT):
            if plan.instant is None:
                refuse_what_stops_a_build(self._table, view)
                client.keep_up({**kept_up, "hoodie.metadata.index.async": "false"})
                client.make_metadata_table()
            else:
                self._refuse_what_was_overtaken(plan.instant, view)
                client.keep_up(kept_up)
                client.java.index(plan.instant)

    def _taken_up(self, instant: str) -> Plan:
        """Return the plan of an indexer, or of an earlier run, that was not begun.

        Raises YieldError if it was begun. Raises TemporaryError for a build that an earlier JVM has left
        unfinished: Hudi undoes it when its heartbeat is silent.
        """
        pending = pending_plan(self._table.view(), Service.INDEXING, instant)
        if pending.state is State.INFLIGHT and pending.last_beat is not None:
            with translated(Step.PLAN):
                self._table.client.java.lazyRollbackFailedIndexing()
            raise TemporaryError(f"indexing {instant} was left unfinished, and is undone first", delay=_UNTIL_SILENT)
        if pending.state is State.INFLIGHT:
            raise YieldError(f"indexing {instant} was begun, perhaps by an indexer that is alive", delay=_MAY_TAKE)
        self._building = planned_indexes(self._table.assignment, instant, self._table.storage)
        unknown = sorted(set(self._building) - _BUILT)
        if unknown or len(self._building) > 1:
            what = unknown[0] if unknown else "several indexes"
            raise PermanentError(f"indexing {instant} builds {what}, which only its own indexer can: run that")
        self._judge(self._building)
        return Plan(instant=instant)

    def _refuse_what_was_overtaken(self, instant: str, view: TableView) -> None:
        """Raise PermanentError if Hudi would leave out what was committed since a plan was made. It lists files up to
        the plan, for any index but that of keys.
        """
        since = [
            one.time for one in view.timeline.instants if one.stands_for is InstantKind.WRITE and one.time > instant
        ]
        if since and list(self._building) != [_OF_KEYS]:
            raise PermanentError(
                f"indexing {instant} would leave out write {since[0]}, which was committed since: let its own indexer "
                "plan it anew, or remove it, and a policy of indexing builds the index"
            )

    def _judge(self, building: Sequence[str]) -> None:
        """Raise PermanentError if an index could not be built, or not be kept up afterwards."""
        size = Listings(self._table.client).bytes_stored()
        if size > self._options.largest_table:
            raise PermanentError(
                f"the table has {format_size(size)}, and its writers would wait for the lock while {building[0]} is "
                f"built: raise largest_table ({format_size(self._options.largest_table)}), or let a writer build it"
            )
        if _STATS in building:
            self._judge_columns()

    def _judge_columns(self) -> None:
        if not self._options.columns and not self._table.options.conf.get(COLUMNS):
            raise PermanentError(f"{_STATS} are planned: name their columns in the policy's options")
        if self._options.columns and self._table.properties().layout is Layout.V1:
            raise PermanentError(
                f"a table below version 8 does not name the columns of its {_STATS}: let its writers build them, "
                f"and name the columns under options.conf: {COLUMNS}"
            )
        missing = sorted({column.partition(".")[0] for column in self._options.columns} - self._table.client.columns())
        if missing:
            raise PermanentError(f"columns: the table has no column {shown(missing[0])}")

    def _indexes(self) -> Indexes:
        return read_indexes(self._table.assignment.location, self._table.properties(), self._table.storage)


def _in_flight(view: TableView) -> Sequence[Instant]:
    return view.writers.in_flight


def _why(write: Instant) -> str:
    return f"write {write.time} is in flight: what it commits beside a build would not be in the index"


Indexing = program(IndexingSteps, IndexingOptions)
"""The indexing program. An abort leaves everything as it is."""
