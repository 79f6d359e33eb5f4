"""An explanation is put together from values: what the daemon sees, what the store keeps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from lakewarden.planners.lock_proof import Evidence, summary
from lakewarden.planners.model.instant import Instant, RunId, Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.service.control.plane import TableStatus
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run
from lakewarden.service.reporting.explain.bodies import (
    ActiveRunExplanation,
    BacklogExplanation,
    DecisionExplanation,
    EndedRunExplanation,
    HindranceExplanation,
    LockExplanation,
    MetadataExplanation,
    PlanExplanation,
    ServiceExplanation,
    TableExplanation,
    WriteExplanation,
    WriteFailureExplanation,
    WritersExplanation,
)
from lakewarden.service.reporting.explain.words import due_when, hours
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.backoff import StepsBack


def explain(
    status: TableStatus,
    *,
    decided: Sequence[DecisionRow],
    last_runs: Mapping[Service, Run],
    waiting: Mapping[RunId, str],
    now: datetime,
) -> TableExplanation:
    """Return why the services of a table run or do not.

    `decided` are the last decisions as they were stored, `last_runs` the last ended run of each service, `waiting` what
    runs that stand at a question wait for.
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
        trouble=status.trouble,
        claimed=None
        if status.claimed is None
        else HindranceExplanation(reason=status.claimed.reason, remedy=status.claimed.remedy or "", services=[]),
        looked_seconds_ago=None if status.looked_ago is None else round(status.looked_ago.total_seconds(), 3),
        poll_seconds=table.poll.total_seconds(),
        name=view.name if view else None,
        kind=view.kind if view else None,
        version=view.version if view else None,
        latest_instant=max((i.time for i in view.timeline.instants), default=None) if view else None,
        warnings=list(status.warnings),
        faults=list(view.faults) if view else [],
        hindrances=_hindrances(view, table) if view else [],
        writers=_writers(view, status.writer_failures) if view else None,
        lock=None if status.lock is None else _lock(status.lock),
        metadata=_metadata(view) if view else None,
        services={
            service.value: ServiceExplanation(
                due_when=due_when(policy),
                window=None if policy.window is None else hours(policy.window),
                priority=policy.priority,
                spark=table.profile_of(service),
                session=dict(policy.session),
                waits_for_approval=service in status.approvals,
                decision=_decision(decisions.get(service)),
                backlog=_backlog(view, service) if view else None,
                notes=_notes(status, service),
                pending=[_plan(plan, named) for plan in view.timeline.pending(service)] if view else [],
                active_run=_active(active.get(service), waiting),
                last_run=_ended(last_runs.get(service)),
                steps_back=_times(status.steps_back.get(service)),
                stepped_back_for=_for(status.steps_back.get(service)),
            )
            for service, policy in _in_order(table.policies)
        },
    )


def _notes(status: TableStatus, service: Service) -> list[str]:
    of_the_format = () if status.view is None else status.view.notes.get(service, ())
    return [*of_the_format, *([status.smaller[service]] if service in status.smaller else [])]


def _in_order(policies: Mapping[Service, Policy]) -> list[tuple[Service, Policy]]:
    """Return policies in the order in which the services are known, whatever order they were written down in."""
    return [(service, policies[service]) for service in Service if service in policies]


def _lock(evidence: Evidence) -> LockExplanation:
    return LockExplanation(
        verdict=evidence.verdict.value,
        summary=summary(evidence),
        witnessed=evidence.witnessed,
        needed=evidence.needed,
        commit_without=evidence.without,
    )


def _hindrances(view: TableView, table: Table) -> list[HindranceExplanation]:
    """Return what holds services back, those first that have a policy. What no table of the format has is not named."""
    there = {*table.policies, *view.backlogs, *view.at_rest}
    return [
        HindranceExplanation(
            reason=one.reason,
            remedy=one.remedy,
            services=sorted(one.services & there or one.services, key=lambda it: (it not in table.policies, it)),
        )
        for one in view.hindrances
    ]


def _writers(view: TableView, failures: Sequence[Blamed]) -> WritersExplanation:
    writers = view.writers
    return WritersExplanation(
        in_flight=[
            WriteExplanation(instant=write.time, begun_at=write.requested_at, guarded_until=write.guarded_until)
            for write in writers.in_flight
        ],
        last_commit_at=writers.last_commit_at,
        usual_interval_seconds=None if writers.usual_interval is None else writers.usual_interval.total_seconds(),
        non_blocking=writers.non_blocking,
        failures=[
            WriteFailureExplanation(
                instant=one.failure.instant, at=one.failure.at, reason=one.failure.reason, near_run=one.run
            )
            for one in failures
        ],
    )


def _metadata(view: TableView) -> MetadataExplanation | None:
    known = view.metadata
    if known is None:
        return None
    return MetadataExplanation(commits=known.commits, since=known.since, pinned_by=known.pinned_by)


def _times(back: StepsBack | None) -> int:
    return 0 if back is None else back.times


def _for(back: StepsBack | None) -> str | None:
    return None if back is None else back.reason


def _decision(row: DecisionRow | None) -> DecisionExplanation | None:
    if row is None:
        return None
    return DecisionExplanation(
        decision=row.decision,
        reason=row.reason,
        remedy=row.remedy,
        decided_at=row.decided_at,
        again_at=row.again_at,
    )


def _backlog(view: TableView, service: Service) -> BacklogExplanation | None:
    backlog = view.backlogs.get(service)
    return None if backlog is None else BacklogExplanation.model_validate(asdict(backlog))


def _plan(plan: Instant, named: Collection[str | None]) -> PlanExplanation:
    """Return a plan. It is ours where it bears our signature, or a run of ours has named it: not every plan can bear
    one.
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
