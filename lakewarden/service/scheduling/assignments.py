"""A run as its worker gets it, from its row, its policy and what was seen of its table."""

from __future__ import annotations

from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES, plan_bytes
from lakewarden.service.model.run import Run


def assignment_of(
    table: Table,
    run: Run,
    *,
    seen: TableView | None,
    largest_plan: int | None,
    retries: int,
    retained: str | None,
) -> Assignment:
    """Return what the worker of a run needs to know. `seen` is the newest view of the table, if there is one."""
    policy = table.policies[run.service]
    writes = () if seen is None else seen.writers.in_flight
    return Assignment(
        run=run.id,
        epoch=run.epoch,
        table=table.id,
        format=table.format,
        location=table.location,
        service=run.service,
        instant=run.instant,
        catalog=None if table.catalog is None else table.catalog.model_dump(mode="json"),
        table_options={} if table.options is None else table.options.model_dump(mode="json"),
        service_options={} if policy.options is None else policy.options.model_dump(mode="json"),
        largest_share=table.budget.percent if SERVICES[run.service].deletes else None,
        most_files=table.budget.files if SERVICES[run.service].deletes else None,
        last_beats={write.time: write.last_beat for write in writes if write.last_beat is not None},
        stopped_beats={write.time: write.stopped_at for write in writes if write.stopped_at is not None},
        largest_plan=largest_plan,
        plan_bytes=None if seen is None else plan_bytes(seen, run.service, run.instant),
        retries=retries,
        rewrite_all=run.rewrite_all,
        retained=retained,
        dry_run=run.dry_run,
        session_conf=policy.session,
    )
