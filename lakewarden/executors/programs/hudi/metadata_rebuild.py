"""Metadata rebuild: the metadata table is dropped and made anew, because a person has asked for it.

All of it happens in one hold of the table's lock, in a moment in which nothing is in flight: no write begins or commits
meanwhile, and so none sees a table whose indexes are half there. It leaves the table's properties first, and nobody
reads it any more; then its files are deleted, and Hudi makes it, from the table's folders and files, with the indexes
that it had. Each is listed in the properties when it is complete, and not before. Killed at any step it leaves a table
without metadata table, or with some of its indexes: readers list folders instead, and a writer makes what it wants.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from lakewarden.executors.contract import Assignment, NothingToDo, Plan, Step, Steps
from lakewarden.executors.faultpoints import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, open_table
from lakewarden.executors.programs.hudi.steps.gaps import alone_between_writes
from lakewarden.executors.programs.hudi.steps.listings import Listings
from lakewarden.executors.programs.hudi.steps.metadata_remains import Remains
from lakewarden.planners.formats.hudi.indexes.indexes import Indexes, read_indexes, switches
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.options.service_options import MetadataRebuildOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration

_UNTIL_A_GAP = timedelta(minutes=1)
_LONGEST_LISTING = timedelta(minutes=2)
"""Hudi lists the table once more under the lock; its writers try for ten minutes to get that (`LEAST_PATIENCE`)."""

_AT_ONCE = {"hoodie.metadata.index.async": "false"}


class MetadataRebuild:
    """The program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the write client for one run. An abort leaves everything as it is."""
        options = MetadataRebuildOptions.model_validate(dict(assignment.service_options))
        with open_table(session, assignment, storage, service={}, clock=self._clock) as table:
            yield MetadataRebuildSteps(table, options)


class MetadataRebuildSteps:
    """The three steps, of which the second does nothing."""

    def __init__(self, table: OpenTable, options: MetadataRebuildOptions) -> None:
        self._table = table
        self._options = options

    def plan(self) -> Plan | NothingToDo:
        """Look whether there is a metadata table, and whether the table's folders are soon listed.

        Raises PermanentError where they are not: the writers would wait for the lock for as long.
        """
        if not self._properties().has_metadata_table:
            return NothingToDo(
                reason="the table has no metadata table: a writer that keeps one makes it when it writes"
            )
        _nothing_else_is_in_flight(self._table.view())
        began = self._table.clock.monotonic()
        with translated(Step.PLAN):
            files = Listings(self._table.client).count_stored()
        took = timedelta(seconds=round(self._table.clock.monotonic() - began))
        if took > _LONGEST_LISTING:
            raise PermanentError(
                f"it takes {format_duration(took)} to list the table's {files} files, and its writers would wait for "
                "that: stop them, CALL delete_metadata_table, and let the next commit of one make it"
            )
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: there is nothing that could be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Drop it and make it. Raises YieldError where something is in flight all the time."""
        self._table.refuse_foreign_plans()
        with alone_between_writes(
            self._table,
            lambda view: view.writers.in_flight,
            why=_why,
            within=self._options.look_for,
            judge=_nothing_else_is_in_flight,
        ):
            began = self._table.clock.monotonic()
            had = self._make_anew()
            held = self._table.clock.monotonic() - began
        missing = sorted(had.complete - self._properties().metadata_partitions)
        if missing:
            raise TemporaryError(f"the metadata table was made without {missing[0]}: the worker's log says why")
        return {"indexes": ", ".join(sorted(had.complete)), "lock_held_seconds": round(held, 3)}

    def _make_anew(self) -> Indexes:
        """Return the indexes that it had, and has again. To be called under the lock."""
        client, table = self._table.client, self._table
        properties = self._properties()
        had = read_indexes(table.assignment.location, properties, table.storage)
        remains = Remains(client, table.storage)
        with translated(Step.COMMIT):
            remains.undo_rewrites(properties)
            table.reach(Point.REBUILDING)
            client.forget_metadata_table()
            table.reach(Point.REBUILDING)
            remains.delete()
            table.reach(Point.REBUILDING)
            client.keep_up({**switches(had), **_AT_ONCE})
            client.make_metadata_table()
            table.reach(Point.REBUILDING)
        return had

    def _properties(self) -> TableProperties:
        return read_table_properties(self._table.assignment.location, self._table.storage)


def _why(write: Instant) -> str:
    return f"write {write.time} is in flight, and at work in the metadata table: it is not made anew beside one"


def _nothing_else_is_in_flight(view: TableView) -> None:
    """Raise YieldError, by name, for what is no write: an index that is being built, or what was left half-way."""
    writes = {write.time for write in view.writers.in_flight}
    for one in view.timeline.instants:
        planned = one.state is State.REQUESTED and one.stands_for is not Service.INDEXING
        if one.pending and one.time not in writes and not planned:
            raise YieldError(f"{one.action} {one.time} is pending: it is finished or undone first")
