"""How a plan of ours ends that is not carried out, and that writers may have found on the timeline.

A writer lists the timeline when it begins, and reads the plans that it has found there when its tasks run: if one is
gone by then, it fails (docs/hudi.md, "Plans that a writer has seen"). On a table that several write to there is hardly
ever a moment without one. So a plan is removed only where no write is in flight. Else it is completed without a file:
it stays to be read, and changes nothing. To those who look at the timeline through us it is as if it were not there.

A plan to resize buckets is never completed so: writers write to its new buckets by the plan's own instant, and their
rows would be there twice. Where a write of before the plan would fail by it, it is removed; else `resizing` says how it
ends.
"""

from __future__ import annotations

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.indexes.buckets import why_not_clustered
from lakewarden.planners.formats.hudi.metadata.plans import GIVEN_UP_KEY
from lakewarden.planners.model.instant import Service


def give_up(table: OpenTable, plan: str) -> None:
    """Undo what was written for the plan of a clustering or a log compaction, and end it. Nothing is done to one that
    is completed, or gone. Raises as `OpenTable.alone` and `refuse_foreign_plans` do.
    """
    with table.alone():
        give_up_alone(table, plan)


def give_up_alone(table: OpenTable, plan: str) -> None:
    """Do the same where the table's lock is held (`OpenTable.alone`): no write begins meanwhile."""
    table.refuse_foreign_plans()
    table.client.undo_rewrite(plan)
    if table.somebody_reads_plans() and not _may_resize_buckets(table):
        table.client.complete_without_files(plan, extra_metadata={GIVEN_UP_KEY: table.assignment.run})
    else:
        table.client.remove_plan(plan)


def _may_resize_buckets(table: OpenTable) -> bool:
    """Whether a clustering of the table may be one of its buckets, by what is declared or by what it shows."""
    if table.assignment.service is not Service.CLUSTERING:
        return False
    return (
        table.options.bucket_index is not None
        or why_not_clustered(None, table.assignment.location, table.storage) is not None
    )
