"""Metadata rebuild: the metadata table is dropped and made anew, because an operator has asked for it.

All of it happens in one hold of the table's lock, in a moment in which nothing is in flight. No write begins or commits
meanwhile, so none sees a table with incomplete indexes. The metadata table is first removed from the table's
properties, and is not read any more. Then its files are deleted, and Hudi makes it from the table's folders and files,
with the indexes that it had. Each index is listed in the properties only when it is complete. A kill at any step leaves
a table without metadata table, or with some of its indexes: readers list folders instead, and a writer makes its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, program
from lakewarden.executors.programs.hudi.steps.gaps import alone_between_writes, refuse_what_stops_a_build
from lakewarden.executors.programs.hudi.steps.listings import Listings
from lakewarden.executors.programs.hudi.steps.metadata_remains import Remains
from lakewarden.planners.formats.hudi.indexes.indexes import Indexes, read_indexes, switches
from lakewarden.planners.formats.hudi.options.service_options import MetadataRebuildOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import format_duration

_LONGEST_LISTING = timedelta(minutes=2)
"""Hudi lists the table once more under the lock, and its writers try for ten minutes to get it (`LEAST_RETRY_TIME`)."""

_AT_ONCE = {"hoodie.metadata.index.async": "false"}


class MetadataRebuildSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: MetadataRebuildOptions) -> None:
        self._table = table
        self._options = options

    def plan(self) -> Plan | NothingToDo:
        """Check whether there is a metadata table, and whether the table's folders are listed soon.

        Raises PermanentError if they are not: the writers would wait for the lock for as long.
        """
        if not self._table.properties().has_metadata_table:
            return NothingToDo(
                reason="the table has no metadata table: a writer that keeps one makes it when it writes"
            )
        self._nothing_else_is_in_flight(self._table.view())
        began = self._table.clock.monotonic()
        with translated(Step.PLAN):
            files = Listings(self._table.client).count_stored()
        took = timedelta(seconds=round(self._table.clock.monotonic() - began))
        if took > _LONGEST_LISTING:
            raise PermanentError(
                f"it takes {format_duration(took)} to list the table's {files} files, and its writers would wait for "
                "that: stop them, CALL delete_metadata_table, and let a writer's next commit make it"
            )
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: nothing can be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Drop it and make it. Raises YieldError if something is in flight all the time."""
        self._table.refuse_foreign_plans()
        with alone_between_writes(
            self._table,
            lambda view: view.writers.in_flight,
            why=_why,
            within=self._options.max_wait_for_writers,
            judge=self._nothing_else_is_in_flight,
        ):
            began = self._table.clock.monotonic()
            had = self._make_anew()
            held = self._table.clock.monotonic() - began
        missing = sorted(had.complete - self._table.properties().metadata_partitions)
        if missing:
            raise TemporaryError(f"the metadata table was made without {missing[0]}: the worker's log says why")
        return {"indexes": ", ".join(sorted(had.complete)), "lock_held_seconds": round(held, 3)}

    def _nothing_else_is_in_flight(self, view: TableView) -> None:
        """Raise YieldError for an instant that is no write: an index that is being built, one that was left pending, or
        one beside which Hudi makes no metadata table.
        """
        refuse_what_stops_a_build(self._table, view)
        writes = {write.time for write in view.writers.in_flight}
        for one in view.timeline.instants:
            planned = one.state is State.REQUESTED and one.stands_for is not Service.INDEXING
            if one.pending and one.time not in writes and not planned:
                raise YieldError(f"{one.action} {one.time} is pending: it is finished or undone first")

    def _make_anew(self) -> Indexes:
        """Make it anew and return its indexes, which are the same as before. To be called under the lock."""
        client, table = self._table.client, self._table
        properties = self._table.properties()
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


def _why(write: Instant) -> str:
    return f"write {write.time} is in flight, and at work in the metadata table, which must not be made anew meanwhile"


MetadataRebuild = program(MetadataRebuildSteps, MetadataRebuildOptions)
"""The program. An abort leaves everything as it is."""
