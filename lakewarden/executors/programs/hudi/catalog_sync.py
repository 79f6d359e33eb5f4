"""Catalog sync: a Hive metastore stops listing partitions that were deleted from the table.

Hudi's own `HiveSyncTool` is not used. It sets everything of the table in the metastore (columns, serde, properties) by
its own settings. If a writer's settings differ, each undoes the other's work. Here only partitions are removed from the
list: those that a deletion on the timeline names and that show no file of the table at this moment. This is checked
under the table's lock. A writer syncs after its commit. So a writer that fills such a partition again either has
committed before, and the partition stays listed, or it syncs afterwards, and lists it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, ProgramSteps, program
from lakewarden.executors.programs.hudi.steps.listings import ListedPartitions
from lakewarden.planners.formats.hudi.deletion.expiry import MARK, noted, read_deletions, told
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.model.instant import Step

_AT_ONCE = 100
"""The most partitions that are removed in one hold of the table's lock, because writers wait for it."""


class CatalogSyncSteps(ProgramSteps[CatalogSyncOptions]):
    """The steps."""

    def __init__(self, table: OpenTable, options: CatalogSyncOptions) -> None:
        super().__init__(table, options)
        self._listed = ListedPartitions(options, table.assignment.location)

    def plan(self) -> Plan | NothingToDo:
        """Check whether there is a deletion that the metastore was not told of."""
        if self._deletions().keys() <= told(self._table.assignment.location, self._options, self._table.storage):
            return NothingToDo(reason="the catalog was told of every deletion of partitions on the timeline")
        return Plan(instant=None)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Remove the deleted partitions from the list, also those of earlier runs, and note what was told."""
        deletions = self._deletions()
        deleted = frozenset[str]().union(*deletions.values())
        dropped = 0
        for table in self._listed.tables():
            listed = iter(self._listed.partitions(table, deleted).items())
            while some := dict(islice(listed, _AT_ONCE)):
                dropped += self._drop(table, some)
        self._table.reach(Point.DROPPED)
        with translated(Step.COMMIT):
            self._table.client.note(MARK, noted(self._options, deletions))
        return {"partitions_dropped": dropped}

    def _drop(self, table: str, listed: Mapping[str, str]) -> int:
        """Remove the partitions that show no file of the table from a table's list, and return their number."""
        client = self._table.client
        with translated(Step.COMMIT), client.locked():
            paths = frozenset(client.shows_files_of(sorted(set(listed.values()))))
            gone = [name for name, path in listed.items() if path not in paths]
            self._listed.drop(table, gone)
        return len(gone)

    def _deletions(self) -> Mapping[str, frozenset[str]]:
        properties = self._table.properties()
        return read_deletions(self._table.whole_timeline(properties), properties, self._table.storage)


CatalogSync = program(CatalogSyncSteps, CatalogSyncOptions)
"""The program. An abort leaves everything as it is."""
