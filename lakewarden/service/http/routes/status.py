"""What an operator wants to know every morning, the replicas, and one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from fastapi import FastAPI, Request
from pydantic import BaseModel

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.pages import Page
from lakewarden.service.http.reach import registered, tables_for
from lakewarden.service.http.schemas import TableBody, table_body
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.reasons import CATALOGUE
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.forecasts import of_all
from lakewarden.service.rules.forecast import Total

PERIOD = timedelta(days=1)
"""The time before now that the status is about."""

MOST_RUNS = 5000
"""So many runs are counted. If there were more, `runs_complete` is false."""

_PAGE = 500
_MOST_NAMED = 20
_VIEWER = needs(Role.VIEWER)
_CURES = {reason.code: reason for reason in CATALOGUE}


class RanBody(BaseModel):
    """The runs of a service that were requested in the period and have ended with one state."""

    service: str
    state: RunState
    runs: int


class BlockedBody(BaseModel):
    """The services that one reason blocks: its code, how many services of how many tables, and the first of them.

    `meaning` and `cure` are those of the code. `reason` and `remedy` are those of the first table.
    """

    code: str
    services: int
    tables: int
    meaning: str
    cure: str
    table: str
    service: str
    reason: str
    remedy: str | None


class WaitingBody(BaseModel):
    """A deletion that waits for an approval."""

    table: str
    service: str
    files: int
    asked_at: datetime


class ForeignServiceBody(BaseModel):
    """A service that a program other than Lakewarden has completed on a table, although it has a policy here."""

    table: str
    service: str
    instant: str
    at: datetime


class WouldRunBody(BaseModel):
    """What the runs of a service would do together, on all tables with a mode that holds them back.

    Counts that are not known are left out. `unknown` tables have no earlier run to go by, so `seconds` and
    `core_seconds` leave them out.
    """

    service: str
    tables: int
    read_files: int
    read_bytes: int
    write_files: int
    delete_files: int
    delete_bytes: int
    versions: int
    seconds: float
    core_seconds: float
    unknown: int


class FleetStatusBody(BaseModel):
    """The tables for which the caller is a viewer, from `since` to `at`.

    `observed` tables have a view here. With replicas, only the owner of a table has one. `failing` are the tables that
    could not be observed. `writer_failures` are the writes that failed, and `near_us`
    those of them that met a run of Lakewarden. Lists have 20 items at most.
    """

    since: datetime
    at: datetime
    tables: int
    observed: int
    failing: int
    paused: int
    active_runs: int
    ran: list[RanBody]
    runs_complete: bool
    blocked: list[BlockedBody]
    would_run: list[WouldRunBody]
    approvals: list[WaitingBody]
    foreign_services: list[ForeignServiceBody]
    writer_failures: int
    writer_failures_near_us: int


class ReplicaBody(BaseModel):
    """A daemon on the store. `here` is the one that answers."""

    id: str
    url: str
    alive: bool
    here: bool
    tables: int


class ReplicaPage(Page[ReplicaBody]):
    """The replicas. There is one page."""


def add_status(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.get("/v1/fleet/status", responses=errors(503), openapi_extra=_VIEWER)
    def fleet_status(request: Request) -> FleetStatusBody:
        """Return what ran in the last day, what is blocked and why, and what waits."""
        return status_of(plane, caller_of(request), now=clock.now())

    @app.get("/v1/replicas", openapi_extra=_VIEWER)
    def replicas() -> ReplicaPage:
        """Return the replicas on this store, as this replica knows them, each with the number of its tables."""
        return ReplicaPage(
            items=[ReplicaBody.model_validate(replica, from_attributes=True) for replica in plane.replicas()]
        )

    @app.get("/v1/tables/{table}", responses=errors(404, 503), openapi_extra=_VIEWER)
    def table(table: str) -> TableBody:
        """Return one table with its health, its decisions and their reasons."""
        status = registered(plane, table)
        return table_body(status, polled_ago=plane.polled_ago(status.table.id))


def status_of(plane: ControlPlane, caller: Caller, *, now: datetime) -> FleetStatusBody:
    """Return the status. Raises TemporaryError if the store does not answer."""
    since = now - PERIOD
    statuses = tables_for(plane, caller)
    runs = list(_ended(plane, since))
    failures = [failure for status in statuses for failure in status.writer_failures if failure.failure.at >= since]
    return FleetStatusBody(
        since=since,
        at=now,
        tables=len(statuses),
        observed=sum(status.view is not None for status in statuses),
        failing=sum(status.failure is not None for status in statuses),
        paused=sum(status.paused is not None for status in statuses),
        active_runs=sum(len(status.active) for status in statuses),
        ran=_ran(run for run in runs if caller.reaches(run.table)),
        runs_complete=len(runs) < MOST_RUNS,
        blocked=blocked_of(statuses),
        would_run=[_would_run(service, total) for service, total in of_all(plane, statuses).items()],
        approvals=_approvals(plane, {status.table.id for status in statuses}),
        foreign_services=_foreign_services(statuses),
        writer_failures=len(failures),
        writer_failures_near_us=sum(failure.run is not None for failure in failures),
    )


def _ended(plane: ControlPlane, since: datetime) -> Iterator[Run]:
    """Yield the runs that ended since a moment, MOST_RUNS at most. Runs come by the time of their request, so a run
    that was requested before the moment ends the search.
    """
    ended = [state for state in RunState if state.ended]
    before, number = None, 0
    while number < MOST_RUNS:
        page = plane.runs(states=ended, before=before, limit=_PAGE)
        for run in page:
            if run.created_at < since:
                return
            number += 1
            yield run
        if len(page) < _PAGE:
            return
        before = page[-1].id


def _ran(runs: Iterator[Run]) -> list[RanBody]:
    counts = Counter((run.service.value, run.state) for run in runs)
    return [RanBody(service=service, state=state, runs=counts[service, state]) for service, state in sorted(counts)]


def blocked_of(statuses: Sequence[TableStatus]) -> list[BlockedBody]:
    """Return the reasons, the most frequent first."""
    groups: dict[str, list[tuple[TableStatus, Service, Blocked]]] = {}
    for status in statuses:
        for service, decision in status.decisions.items():
            if isinstance(decision, Blocked) and service in status.table.policies:
                groups.setdefault(decision.code, []).append((status, service, decision))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_group(code, blocks) for code, blocks in ordered]


def _would_run(service: Service, total: Total) -> WouldRunBody:
    return WouldRunBody(
        service=service.value,
        tables=total.tables,
        read_files=total.files,
        read_bytes=total.bytes,
        write_files=total.writes,
        delete_files=total.deletes,
        delete_bytes=total.deletes_bytes,
        versions=total.versions,
        seconds=round(total.length.total_seconds(), 1),
        core_seconds=total.core_seconds,
        unknown=total.unknown,
    )


def _group(code: str, blocks: Sequence[tuple[TableStatus, Service, Blocked]]) -> BlockedBody:
    status, service, decision = blocks[0]
    reason = _CURES[code]
    return BlockedBody(
        code=code,
        services=len(blocks),
        tables=len({status.table.id for status, _, _ in blocks}),
        meaning=reason.meaning,
        cure=reason.cure,
        table=status.table.id,
        service=service.value,
        reason=decision.reason,
        remedy=decision.remedy,
    )


def _approvals(plane: ControlPlane, tables: Collection[str]) -> list[WaitingBody]:
    waiting = [approval for approval in plane.approvals() if approval.table in tables and approval.approved_at is None]
    return [
        WaitingBody(
            table=approval.table, service=approval.service.value, files=approval.files, asked_at=approval.asked_at
        )
        for approval in sorted(waiting, key=lambda row: row.asked_at)[:_MOST_NAMED]
    ]


def _foreign_services(statuses: Sequence[TableStatus]) -> list[ForeignServiceBody]:
    """Return the newest service of others for each table."""
    newest = [
        (
            status.table.id,
            max(status.foreign_services, key=lambda instant: instant.completed_at or instant.requested_at),
        )
        for status in statuses
        if status.foreign_services
    ]
    return [
        ForeignServiceBody(
            table=table,
            service=str(instant.stands_for),
            instant=instant.time,
            at=instant.completed_at or instant.requested_at,
        )
        for table, instant in newest[:_MOST_NAMED]
    ]
