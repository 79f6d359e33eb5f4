"""How a plan of ours ends that is not executed, and that writers may have found on the timeline.

A writer lists the timeline when it begins, and reads the plans that it has found there when its tasks run. If one is
gone by then, the writer fails (docs/hudi.md, "Plans that a writer has seen"). On a table with several writers there is
hardly ever a moment without a write. So a plan is removed only if no write is in flight. Otherwise it is completed
without a file: it can still be read, and changes nothing. Our views of the timeline do not show it.

A plan to resize buckets is never completed so. Writers write to its new buckets under the plan's own instant, and their
rows would be there twice. If a write from before the plan would fail by it, the plan is removed. Otherwise `resizing`
says how it ends.
"""

from __future__ import annotations

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.indexes.buckets import why_not_clustered
from lakewarden.planners.formats.hudi.metadata.plans import GIVEN_UP_KEY
from lakewarden.planners.model.instant import Service


def give_up(table: OpenTable, plan: str) -> None:
    """Undo what was written for the plan of a clustering or a log compaction, and end it. Do nothing to one that is
    completed or gone. Raises as `OpenTable.alone` and `refuse_foreign_plans` do.
    """
    with table.alone():
        give_up_alone(table, plan)


def give_up_alone(table: OpenTable, plan: str) -> None:
    """Do the same while the table's lock is held (`OpenTable.alone`): no write begins meanwhile."""
    table.refuse_foreign_plans()
    table.client.undo_rewrite(plan)
    if table.writers_may_read_plans() and not _may_resize_buckets(table):
        table.client.complete_without_files(plan, extra_metadata={GIVEN_UP_KEY: table.assignment.run})
    else:
        table.client.remove_plan(plan)


def _may_resize_buckets(table: OpenTable) -> bool:
    """Whether a clustering of the table may resize buckets, by its owner's declaration or by what it shows."""
    if table.assignment.service is not Service.CLUSTERING:
        return False
    return (
        table.options.bucket_index is not None
        or why_not_clustered(None, table.assignment.location, table.storage) is not None
    )
