"""Metadata validation: compares the metadata table's lists with the files in the table's folders. It changes nothing.

Hudi reads both, and lists the folders in Spark tasks. Writers go on meanwhile. So only a difference of completed
commits that two looks agree on counts. While a clean or a rollback deletes, no file counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, program
from lakewarden.executors.programs.hudi.steps.listings import AT_ONCE, Listings
from lakewarden.planners.formats.hudi.history.completed import completed_instants
from lakewarden.planners.formats.hudi.indexes.metadata_check import Committed, Differences, Folders, differences, named
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.options.service_options import NoOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView

_DELETING = frozenset({Service.CLEAN, Service.ROLLBACK})


class MetadataValidationSteps:
    """The three steps. The last reports what the second has found."""

    def __init__(self, table: OpenTable, _options: NoOptions) -> None:
        self._table = table
        self._listings = Listings(table.client)
        self._figures: Mapping[str, int | str] = {}

    def plan(self) -> Plan | NothingToDo:
        """Check whether there is a metadata table."""
        if not self._table.properties().has_metadata_table:
            return NothingToDo(reason="the table has no metadata table")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Compare the two, and compare differences once more. A few partitions are in memory at a time."""
        with translated(Step.EXECUTE):
            partitions = self._listings.partitions()
        found, files = Differences(), 0
        for start in range(0, len(partitions), AT_ONCE):
            some = partitions[start : start + AT_ONCE]
            once, counted = self._compared(some)
            again = self._compared(once.partitions())[0] if once.partitions() else Differences()
            still = once.still(again)
            found = Differences(unknown=found.unknown | still.unknown, gone=found.gone | still.gone)
            files += counted
        self._figures = {
            "partitions": len(partitions),
            "files": files,
            "files_unknown_to_metadata": len(found.unknown),
            "files_only_in_metadata": len(found.gone),
            "partitions_that_differ": len(found.partitions()),
        }
        told = {"unknown_to_metadata": named(found.unknown), "only_in_metadata": named(found.gone)}
        self._figures |= {key: text for key, text in told.items() if text}

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Report the differences, by name."""
        return self._figures

    def _compared(self, partitions: list[str]) -> tuple[Differences, int]:
        """Return how these partitions differ, and how many files they have. The timeline is read first, then the
        metadata table, then the folders: a commit in between is no difference in either of them.
        """
        view = self._table.view()
        with translated(Step.EXECUTE):
            known = self._listings.known(partitions)
            stored = self._listings.stored(partitions)
        found = differences(known, stored, self._committed(view))
        if _deletes(view) or _deletes(self._table.view()):
            found = Differences(unknown=found.unknown)
        return found, _count(stored)

    def _committed(self, view: TableView) -> Committed:
        properties = self._table.properties()
        return Committed(
            instants=completed_instants(view.timeline.instants, properties, self._table.storage),
            appended=properties.layout is Layout.V1,
            quiet=not view.writers.in_flight,
        )


def _deletes(view: TableView) -> bool:
    return any(instant.pending and instant.stands_for in _DELETING for instant in view.timeline.instants)


def _count(folders: Folders) -> int:
    return sum(len(names) for names in folders.values())


MetadataValidation = program(MetadataValidationSteps, NoOptions)
"""The program. It changes nothing."""
