"""Plans that leave out a file. Hudi plans from its metadata table, and does not look into the folders.

If the metadata table has lost the entry of a file, the plan does not name the file. The rewrite then loses its rows for
good, and Hudi calls that a success (run with 1.2.0). So a plan is compared with a listing of its partitions.
"""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.steps.listings import AT_ONCE, Listings
from lakewarden.executors.programs.hudi.steps.undone import rollbacks_since
from lakewarden.planners.formats.hudi.indexes.metadata_check import CommittedBefore, left_out, named
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step


class IncompletePlanError(PermanentError):
    """A plan does not name a file that it should read."""


def require_whole_plan(table: OpenTable, service: Service, instant: str, files: Collection[DataFile]) -> None:
    """Raise IncompletePlanError if a plan does not name a file that it should read. Raise PermanentError if it names a
    file outside the table. The timeline is read first: a commit after it is no part of the plan.
    """
    if not table.properties().has_metadata_table:
        return
    view, missing = table.view(), set[DataFile]()
    instants = view.timeline.instants
    committed = CommittedBefore(
        completed={one.time: one.completed_time or one.time for one in instants if not one.pending},
        before=min((one.time for one in instants), default=""),
        appended=table.properties().layout is Layout.V1,
        quiet=not view.writers.in_flight and not rollbacks_since(view, instant),
    )
    partitions, listings = sorted({file.partition for file in files}), Listings(table.client)
    for start in range(0, len(partitions), AT_ONCE):
        with translated(Step.PLAN):
            stored = listings.stored(partitions[start : start + AT_ONCE])
        missing |= left_out(files, stored, committed, at=instant)
    if missing:
        table.refuse_foreign_plans()
        name = table.assignment.table
        raise IncompletePlanError(
            f"the metadata table does not list {named(missing)}: plan {instant} leaves the rows there out, and the "
            f"{service} would lose them. Make the metadata table anew (services: {{metadata_rebuild: {{}}}} and "
            f"lakewarden trigger {name} metadata_rebuild), roll the plan back if it is still pending, and release the "
            f"service (lakewarden quarantine release {name} {service})"
        )
