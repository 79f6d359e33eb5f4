"""The bodies of the API, as JSON. Times are RFC 3339 in UTC. Names contain units."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

from pydantic import BaseModel

from lakewarden.executors.contract import RunProgress
from lakewarden.planners.model.decision import Decision, remedy_of
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.run import Run
from lakewarden.service.reporting.explain.assembly import writers_explained
from lakewarden.service.reporting.explain.bodies import WritersExplanation


class ProgressBody(BaseModel):
    """What a run does now, as its worker said it at its last heartbeat. It is not stored.

    `stages` and `tasks` are those of the Spark jobs that have begun: a later job brings more. `stage` is a stage at
    work. `bytes_read` and `bytes_written` do not count what is shuffled. `core_seconds` is how long tasks occupied a
    core. `planned_bytes` and `planned_file_groups` are the size of the plan, if the plan says it.
    """

    step: Step | None
    stage: str | None
    jobs: int
    stages: int
    stages_done: int
    tasks: int
    tasks_active: int
    tasks_done: int
    tasks_failed: int
    bytes_read: int
    bytes_written: int
    core_seconds: float
    planned_bytes: int | None
    planned_file_groups: int | None


class RunBody(BaseModel):
    """One run. `rewrite_all`: it is a part of a rewrite of all files.

    `progress` is what its worker does now. It is null if no worker has the run.
    """

    id: str
    table: str
    service: str
    state: str
    instant: str | None
    reason: str
    requested_by: str
    step: Step | None
    epoch: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    run_seconds: float | None
    waits_for: str | None
    outcome: str | None
    figures: dict[str, int | float | str]
    rewrite_all: bool = False
    progress: ProgressBody | None = None


class DecisionBody(BaseModel):
    """The last decision, and its reason."""

    decision: str
    code: str
    reason: str
    remedy: str | None
    again_at: datetime | None


class ServiceBody(BaseModel):
    """One service of a table: its backlog, its decision, its run."""

    decision: DecisionBody | None
    commits_since: int | None
    pending: int
    active_run: str | None


class TableBody(BaseModel):
    """One registered table as the daemon sees it. The values of the table are null until it was observed.

    `owner` is the replica that owns it. Other replicas do not observe it.
    """

    id: str
    format: str
    path: str
    owner: str | None
    mode: str
    poll_seconds: float
    paused: str | None
    failure: str | None
    observed_seconds_ago: float | None
    observed_at: datetime | None
    name: str | None
    kind: str | None
    version: str | None
    latest_instant: str | None
    writers: WritersExplanation | None
    warnings: list[str]
    faults: list[str]
    services: dict[str, ServiceBody]
    contact: str | None
    labels: dict[str, str]


class HookBody(BaseModel):
    """The result of a commit hook: `accepted`, or `unknown_table`. In both cases the sender need not send it again."""

    result: str
    table: str | None


class LiveBody(BaseModel):
    """Whether the daemon lives, and how long ago its control thread turned."""

    alive: bool
    turned_seconds_ago: float


class ReadyBody(BaseModel):
    """Whether the daemon may act, and what is missing."""

    ready: bool
    missing: list[str]
    notes: list[str] = []
    """What an operator should know although the daemon is ready: a pool without a worker, a changed configuration
    that is refused.
    """


def run_body(run: Run, *, now: datetime, waits_for: str | None = None, doing: RunProgress | None = None) -> RunBody:
    """Return a run as JSON. `doing` is what its worker said last. A run that has ended does nothing any more."""
    ended = run.ended_at or now
    return RunBody(
        id=run.id,
        table=run.table,
        service=run.service,
        state=run.state,
        instant=run.instant,
        reason=run.reason,
        requested_by=run.requested_by,
        step=run.step,
        epoch=run.epoch,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        run_seconds=None if run.started_at is None else (ended - run.started_at).total_seconds(),
        waits_for=waits_for,
        outcome=run.outcome,
        figures=dict(run.figures),
        rewrite_all=run.rewrite_all is not None,
        progress=None if doing is None or run.state.ended else _progress(doing),
    )


def _progress(doing: RunProgress) -> ProgressBody:
    return ProgressBody(
        **asdict(doing.done), step=doing.step, planned_bytes=doing.bytes, planned_file_groups=doing.file_groups
    )


def table_body(status: TableStatus, *, polled_ago: timedelta | None) -> TableBody:
    """Return a table as JSON. `polled_ago` is the time since the last attempt to observe it."""
    table, view = status.table, status.view
    instants = view.timeline.instants if view else ()
    return TableBody(
        id=table.id,
        format=table.format,
        path=table.location,
        owner=status.owner,
        mode=table.mode,
        poll_seconds=table.poll.total_seconds(),
        paused=status.paused,
        failure=status.failure,
        observed_seconds_ago=_seconds(polled_ago),
        observed_at=view.observed_at if view else None,
        name=view.name if view else None,
        kind=view.kind if view else None,
        version=view.version if view else None,
        latest_instant=max((i.time for i in instants), default=None),
        writers=writers_explained(view, status.writer_failures) if view else None,
        warnings=list(status.warnings),
        faults=list(view.faults) if view else [],
        services={service.value: _service(service, status) for service in table.policies},
        contact=table.contact,
        labels=dict(table.labels),
    )


def _service(service: Service, status: TableStatus) -> ServiceBody:
    view = status.view
    backlog = view.backlogs.get(service) if view else None
    active = next((run.id for run in status.active if run.service is service), None)
    decision = status.decisions.get(service)
    return ServiceBody(
        decision=None if decision is None else _decision(decision),
        commits_since=None if backlog is None else backlog.commits,
        pending=len(view.timeline.pending(service)) if view else 0,
        active_run=active,
    )


def _decision(decision: Decision) -> DecisionBody:
    return DecisionBody(
        decision=type(decision).__name__,
        code=decision.code,
        reason=decision.reason,
        remedy=remedy_of(decision),
        again_at=getattr(decision, "again_at", None),
    )


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else round(duration.total_seconds(), 3)
