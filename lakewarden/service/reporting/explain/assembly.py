"""An explanation is assembled from values: the status of the daemon, and the rows of the store. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

from pydantic import BaseModel

from lakewarden.planners.lock_proof import summary
from lakewarden.planners.model.instant import Instant, RunId, Service
from lakewarden.planners.model.table import Policy, Scheduling, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.services import plan_bytes
from lakewarden.planners.settings import format_duration
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import DecisionChange, Run
from lakewarden.service.reporting.explain.bodies import (
    ActiveRunExplanation,
    ApprovalExplanation,
    BacklogExplanation,
    BlockerExplanation,
    DecisionExplanation,
    EndedRunExplanation,
    ForecastExplanation,
    InnerTableExplanation,
    LockExplanation,
    PlanExplanation,
    ServiceExplanation,
    TableExplanation,
    WriteExplanation,
    WriteFailureExplanation,
    WritersExplanation,
)
from lakewarden.service.rules.forecast import Forecast
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.approvals import in_words

_Body = TypeVar("_Body", bound=BaseModel)


def due_when(policy: Policy) -> str:
    """Return what makes a service with this policy due: its trigger, or the plans of the writers of the table."""
    left_alone = f"a writer's plan has waited for {format_duration(policy.grace)}"
    match policy.schedule:
        case Scheduling.DAEMON:
            return policy.trigger.describe()
        case Scheduling.WRITER:
            return left_alone
        case Scheduling.BOTH:
            return f"{policy.trigger.describe()}, or {left_alone}"
        case _:
            assert_never(policy.schedule)


def hours(window: Window) -> str:
    """Return when a window is open: `22:00 to 06:00 UTC on mon, tue`."""
    days = (
        "" if window.days == frozenset(Weekday) else f" on {', '.join(day.name.lower() for day in sorted(window.days))}"
    )
    return f"{window.start:%H:%M} to {window.end:%H:%M} {window.zone.key}{days}"


def explain(
    status: TableStatus,
    *,
    decided: Sequence[DecisionRow],
    last_runs: Mapping[Service, Run],
    waiting: Mapping[RunId, str],
    now: datetime,
    polled_ago: timedelta | None = None,
    forecasts: Mapping[Service, Forecast] | None = None,
) -> TableExplanation:
    """Return why the services of a table run or do not.

    `decided` are the last decisions as they were stored. `last_runs` has the last ended run of each service. `waiting`
    has what each run waits for that has asked for a permit. `polled_ago` is the time since the last attempt to observe
    the table. `forecasts` say what runs would do now.
    """
    table, view = status.table, status.view
    decisions = {row.service: row for row in decided}
    active = {run.service: run for run in status.active}
    named = {run.instant for run in (*status.active, *last_runs.values())}
    return TableExplanation(
        table=table.id,
        format=table.format,
        path=table.location,
        explained_at=now,
        mode=table.mode,
        paused=status.paused,
        failure=status.failure,
        observed_seconds_ago=None if polled_ago is None else round(polled_ago.total_seconds(), 3),
        poll_seconds=table.poll.total_seconds(),
        sources=_sources(table),
        polled_every_seconds=(status.polled_every or table.poll).total_seconds(),
        name=view.name if view else None,
        kind=view.kind if view else None,
        version=view.version if view else None,
        latest_instant=max((i.time for i in view.timeline.instants), default=None) if view else None,
        warnings=list(status.warnings),
        faults=list(view.faults) if view else [],
        blockers=_blockers(view, table) if view else [],
        writers=writers_explained(view, status.writer_failures) if view else None,
        lock=None
        if (lock := status.lock) is None
        else LockExplanation(
            verdict=lock.verdict.value,
            summary=summary(lock),
            witnessed=lock.witnessed,
            needed=lock.needed,
            commit_without=lock.without,
        ),
        inner=[
            InnerTableExplanation.model_validate(inner, from_attributes=True) for inner in (view.inner if view else ())
        ],
        services={
            service.value: ServiceExplanation(
                due_when=due_when(policy),
                window=None if policy.window is None else hours(policy.window),
                priority=policy.priority,
                spark=table.profile_of(service, None if view is None else plan_bytes(view, service)),
                session=dict(policy.session),
                approval=_body_of(ApprovalExplanation, status.approvals.get(service)),
                decision=_body_of(DecisionExplanation, decisions.get(service)),
                backlog=_body_of(BacklogExplanation, view.backlogs.get(service)) if view else None,
                notes=_notes(status, service),
                pending=[_plan(plan, named) for plan in view.timeline.pending(service)] if view else [],
                active_run=_active(active.get(service), waiting),
                last_run=_ended(last_runs.get(service)),
                retries=retries.times if (retries := status.retries.get(service)) else 0,
                retry_reason=retries.reason if retries else None,
                forecast=None if service in status.approvals else forecast_explained((forecasts or {}).get(service)),
            )
            for service in Service  # in this order, not in that of the configuration
            if (policy := table.policies.get(service)) is not None
        },
    )


_OF_TABLE = ("mode", "poll", "poll_with_hooks")
_OF_SERVICE = ("trigger", "schedule", "grace", "window", "priority", "spark", "session")


def _sources(table: Table) -> dict[str, str]:
    """Return where the values come from that an explanation has, by their keys in the configuration."""
    keys = [*_OF_TABLE, *(f"services.{service}.{name}" for service in table.policies for name in _OF_SERVICE)]
    return {key: _source(table, key) for key in keys}


def _source(table: Table, key: str) -> str:
    origin = table.origin(key)
    if origin is None:
        return "built-in"
    place = table.place(origin)
    return origin.level if place is None else f"{origin.level}, {place}"


def _notes(status: TableStatus, service: Service) -> list[str]:
    of_the_format = () if status.view is None else status.view.notes.get(service, ())
    rewrite = status.rewrites.get(service)
    of_operators = (
        []
        if rewrite is None
        else [f"{in_words(rewrite)}; `lakewarden trigger {status.table.id} {service} --end-rewrite` withdraws it"]
    )
    return [*of_operators, *of_the_format, *([status.smaller[service]] if service in status.smaller else [])]


def _blockers(view: TableView, table: Table) -> list[BlockerExplanation]:
    """Return the blockers. Services with a policy come first. Services that no table of the format has are left out,
    and so are blockers that are about policies which the table does not have.
    """
    there = {*table.policies, *view.backlogs, *view.at_rest}
    return [
        BlockerExplanation(
            reason=blocker.reason,
            remedy=blocker.remedy,
            services=sorted(
                blocker.services & there or blocker.services, key=lambda it: (it not in table.policies, it)
            ),
        )
        for blocker in view.blockers
        if not (blocker.moot or (blocker.only_if_configured and blocker.services.isdisjoint(table.policies)))
    ]


def writers_explained(view: TableView, failures: Sequence[Blamed]) -> WritersExplanation:
    """Return what the writers of a table are doing, for programs. A write that has failed is no longer in flight."""
    writers = view.writers
    failed = {failure.instant for failure in writers.failures}
    return WritersExplanation(
        in_flight=[
            WriteExplanation(instant=write.time, begun_at=write.requested_at, guarded_until=write.guarded_until)
            for write in writers.in_flight
            if write.time not in failed
        ],
        last_commit_at=writers.last_commit_at,
        usual_interval_seconds=None if writers.usual_interval is None else writers.usual_interval.total_seconds(),
        non_blocking=writers.non_blocking,
        failures=[
            WriteFailureExplanation(
                instant=blamed.failure.instant, at=blamed.failure.at, reason=blamed.failure.reason, near_run=blamed.run
            )
            for blamed in failures
        ],
    )


def _body_of(kind: type[_Body], known: object) -> _Body | None:
    """Return a body from an object with the same names, or None if there is none."""
    return None if known is None else kind.model_validate(known, from_attributes=True)


def forecast_explained(forecast: Forecast | None) -> ForecastExplanation | None:
    """Return a forecast for programs."""
    if forecast is None:
        return None
    return ForecastExplanation(
        read_files=forecast.files,
        read_bytes=forecast.bytes,
        write_files=forecast.writes,
        delete_files=forecast.deletes,
        delete_bytes=forecast.deletes_bytes,
        versions=forecast.versions,
        seconds=None if forecast.length is None else round(forecast.length.total_seconds(), 1),
        core_seconds=None if forecast.core_seconds is None else round(forecast.core_seconds, 1),
        runs=forecast.runs,
        basis=forecast.basis,
    )


def _plan(plan: Instant, named: Collection[str | None]) -> PlanExplanation:
    """Return a plan. It is ours if it has the id of a run of ours, or if a run of ours has named it.

    Not every plan can have the id of its run.
    """
    return PlanExplanation(
        instant=plan.time,
        state=plan.state.name,
        requested_at=plan.requested_at,
        ours=plan.author is not None or plan.time in named,
        guarded_until=plan.guarded_until,
        file_groups=plan.plan.file_groups if plan.plan else None,
        bytes=plan.plan.bytes if plan.plan else None,
    )


def _active(run: Run | None, waiting: Mapping[RunId, str]) -> ActiveRunExplanation | None:
    if run is None:
        return None
    return ActiveRunExplanation(
        id=run.id,
        state=run.state,
        step=run.step,
        reason=run.reason,
        created_at=run.created_at,
        waits_for=waiting.get(run.id),
    )


def _ended(run: Run | None) -> EndedRunExplanation | None:
    if run is None:
        return None
    took = None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at
    return EndedRunExplanation(
        id=run.id,
        state=run.state,
        outcome=run.outcome,
        ended_at=run.ended_at,
        run_seconds=None if took is None else took.total_seconds(),
        figures=dict(run.figures),
    )


# Explain a past moment, from what the store has kept of it.


class PastDecision(BaseModel):
    """A decision of the past: `Due`, `NotDue`, `WouldRun`, `Blocked` or `DoesNotApply`, from `since` to `until`
    (null: it still holds).

    The numbers in its reason are those of its beginning.
    """

    decision: str
    reason: str
    remedy: str | None
    again_at: datetime | None
    since: datetime
    until: datetime | None


class PastRun(BaseModel):
    """A run that had been requested and had not ended at the moment. `outcome` is how it ended later."""

    id: str
    service: str
    reason: str
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None


class PastServiceExplanation(BaseModel):
    """One service at a past moment."""

    decision: PastDecision | None
    runs: list[PastRun]


class PastExplanation(BaseModel):
    """What was decided on a table at a past moment, and what ran. A service that nothing is known of is left out."""

    table: str
    at: datetime
    services: dict[str, PastServiceExplanation]


def past_decision(change: DecisionChange) -> PastDecision:
    """Return a change of a decision as it is shown."""
    return PastDecision(**asdict(change.decision), since=change.decision.decided_at, until=change.until)


def explain_past(
    table: str, at: datetime, *, decisions: Sequence[DecisionChange], runs: Sequence[Run]
) -> PastExplanation:
    """Return the explanation of a moment: the decisions that held, and the open runs."""
    held = {change.decision.service: past_decision(change) for change in decisions}
    names = sorted({*held, *(run.service for run in runs)})
    return PastExplanation(
        table=table,
        at=at,
        services={
            service.value: PastServiceExplanation(
                decision=held.get(service),
                runs=[PastRun.model_validate(run, from_attributes=True) for run in runs if run.service is service],
            )
            for service in names
        },
    )
