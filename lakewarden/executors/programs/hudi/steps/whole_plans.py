"""Plans that leave out a file. Hudi plans from its metadata table and from its active timeline, not from the folders.

If the metadata table has lost the entry of a file, or an archive has gone past an instant that stayed on the timeline,
the plan does not name the file. The rewrite then loses its rows for good, and Hudi calls that a success (run with
1.2.0). So a plan is compared with a listing of its partitions, and with what the archive says was committed.
"""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.steps.listings import AT_ONCE, Listings
from lakewarden.executors.programs.hudi.steps.undone import rollbacks_since
from lakewarden.planners.formats.hudi.history.completed import completed_instants
from lakewarden.planners.formats.hudi.indexes.metadata_check import Committed, left_out, named
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.step import Step


class IncompletePlanError(PermanentError):
    """A plan does not name a file that it should read."""


def require_whole_plan(table: OpenTable, service: Service, instant: str, files: Collection[DataFile]) -> None:
    """Raise IncompletePlanError if a plan does not name a file that it should read. Raise PermanentError if it names a
    file outside the table, and TemporaryError if the archive cannot be read. The timeline is read first: a commit after
    it is no part of the plan.
    """
    view, properties, missing = table.view(), table.properties(), set[DataFile]()
    completed = completed_instants(view.timeline.instants, properties, table.storage)
    if not properties.has_metadata_table and completed.passed is None:
        return
    committed = Committed(
        instants=completed,
        appended=properties.layout is Layout.V1,
        quiet=not view.writers.in_flight and not rollbacks_since(view, instant),
    )
    partitions, listings = sorted({file.partition for file in files}), Listings(table.client)
    for start in range(0, len(partitions), AT_ONCE):
        with translated(Step.PLAN):
            stored = listings.stored(partitions[start : start + AT_ONCE])
        missing |= left_out(files, stored, committed, at=instant, logs_alone=service is Service.LOG_COMPACTION)
    if missing:
        table.refuse_foreign_plans()
        name = table.assignment.table
        if completed.passed is not None:
            cause, cure = _passed(completed.passed, name)
        else:
            cause = "the metadata table does not list them"
            cure = (
                "make the metadata table anew (services: {metadata_rebuild: {}} and lakewarden trigger "
                f"{name} metadata_rebuild), roll the plan back if it is still pending"
            )
        raise IncompletePlanError(
            f"plan {instant} leaves out {named(missing)}, and the {service} would lose the rows there: {cause}. To go "
            f"on, {cure}, and release the service (lakewarden quarantine release {name} {service})"
        )


def _passed(instant: Instant, table: str) -> tuple[str, str]:
    """Return why Hudi ignores files of archived commits, and what an operator does."""
    what = f"{instant.action} {instant.time}"
    ends = f"let {what} be carried out or take its files off the timeline, then " if instant.pending else ""
    return (
        f"an archive has gone past {what}, which stayed on the timeline, and Hudi takes commits that were archived "
        "after it for never committed",
        f"{ends}let an archive move {what} (lakewarden trigger {table} archive)",
    )
