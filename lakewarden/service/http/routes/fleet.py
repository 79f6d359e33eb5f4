"""`GET /v1/fleet`: all tables together. What runs, what is blocked, and how much work has piled up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, Due
from lakewarden.planners.model.instant import Service
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.registered import tables_for
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import RunState

By = Literal["service", "format", "label"]


class DebtBody(BaseModel):
    """The services of some tables, by their last decisions, and the work that has piled up for them.

    `service`, `format` and `label` name the group. Null means all of them. `bytes` and `files` wait to be rewritten, as
    far as the formats count them. `oldest_pending_at` is when the oldest pending plan was requested.
    """

    service: str | None
    format: str | None
    label: str | None
    services: int
    due: int
    would_run: int
    blocked: int
    undecided: int
    active_runs: int
    pending: int
    commits: int
    files: int
    bytes: int
    oldest_pending_at: datetime | None
    oldest_pending_seconds: float | None


class FleetBody(BaseModel):
    """The tables for which the caller is a viewer.

    `would_run` tables have a service that is due and that their mode holds back.
    `observed` tables have a view here. With replicas, only the owner of a table has one. `debt` is by service and
    format, or as the parameter `by` says.
    """

    tables: int
    observed: int
    failing: int
    paused: int
    would_run: int
    blocked: int
    approvals: int
    queued_runs: int
    running_runs: int
    formats: dict[str, int]
    debt: list[DebtBody]


def add_fleet(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the route."""

    @app.get("/v1/fleet", responses=errors(422), openapi_extra=needs(Role.VIEWER))
    def fleet(request: Request, by: By | None = None) -> FleetBody:
        """Return all tables together: how many there are, what is blocked, and what has piled up.

        `by` groups the debt by `service`, by `format` or by `label` alone.
        """
        return summary(tables_for(plane, caller_of(request)), by=by, now=clock.now())


def summary(statuses: Sequence[TableStatus], *, by: By | None, now: datetime) -> FleetBody:
    """Return the summary of tables."""
    groups: dict[tuple[str | None, str | None, str | None], _Debt] = {}
    for status in statuses:
        for service in status.table.policies:
            for group in _groups(status, service, by):
                groups.setdefault(group, _Debt()).add(status, service)
    states = Counter(run.state for status in statuses for run in status.active)
    return FleetBody(
        tables=len(statuses),
        observed=sum(status.view is not None for status in statuses),
        failing=sum(status.failure is not None for status in statuses),
        paused=sum(status.paused is not None for status in statuses),
        would_run=sum(bool(status.would_run) for status in statuses),
        blocked=sum(
            any(isinstance(decision, Blocked) for decision in status.decisions.values()) for status in statuses
        ),
        approvals=sum(len(status.approvals) for status in statuses),
        queued_runs=states[RunState.QUEUED],
        running_runs=states[RunState.RUNNING] + states[RunState.COMMITTING],
        formats=dict(sorted(Counter(status.table.format for status in statuses).items())),
        debt=[groups[key].body(*key, now=now) for key in sorted(groups, key=lambda key: [part or "" for part in key])],
    )


def _groups(
    status: TableStatus, service: Service, by: By | None
) -> Iterable[tuple[str | None, str | None, str | None]]:
    match by:
        case None:
            return [(service.value, status.table.format, None)]
        case "service":
            return [(service.value, None, None)]
        case "format":
            return [(None, status.table.format, None)]
        case "label":
            return [(None, None, f"{name}={value}") for name, value in sorted(status.table.labels.items())]


class _Debt:
    """The sums of one group. `add` is called for each service of thousands of tables."""

    def __init__(self) -> None:
        self._services = self._due = self._would_run = self._blocked = self._undecided = self._active_runs = 0
        self._pending = self._commits = self._files = self._bytes = 0
        self._oldest: datetime | None = None

    def add(self, status: TableStatus, service: Service) -> None:
        decision = status.decisions.get(service)
        self._services += 1
        self._due += isinstance(decision, Due)
        self._would_run += service in status.would_run
        self._blocked += isinstance(decision, Blocked)
        self._undecided += decision is None
        self._active_runs += any(run.service is service for run in status.active) if status.active else 0
        if status.view is None:
            return
        backlog = status.view.backlogs.get(service)
        if backlog is not None:
            self._commits += backlog.commits
            self._files += backlog.files or 0
            self._bytes += backlog.bytes or 0
        for plan in status.view.timeline.pending(service):
            self._pending += 1
            self._oldest = plan.requested_at if self._oldest is None else min(self._oldest, plan.requested_at)

    def body(self, service: str | None, format: str | None, label: str | None, *, now: datetime) -> DebtBody:  # noqa: A002
        oldest = self._oldest
        return DebtBody(
            service=service,
            format=format,
            label=label,
            services=self._services,
            due=self._due,
            would_run=self._would_run,
            blocked=self._blocked,
            undecided=self._undecided,
            active_runs=self._active_runs,
            pending=self._pending,
            commits=self._commits,
            files=self._files,
            bytes=self._bytes,
            oldest_pending_at=oldest,
            oldest_pending_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        )
