"""`GET /v1/fleet/debt` and `GET /v1/tables/{table}/debt`: what had piled up, over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from fastapi import FastAPI
from pydantic import BaseModel

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.moments import Moment
from lakewarden.service.http.registered import registered
from lakewarden.service.model.access import Role
from lakewarden.service.model.history import GRAINS, Debt, DebtPoint
from lakewarden.service.reporting.debt import points_of

By = Literal["service"]

MOST_POINTS = 1000
"""The most points of one series."""

_DAY = timedelta(days=1)


class DebtPointBody(BaseModel):
    """What had piled up at a moment.

    `tables` were measured then. `commits` came since the service last ran. `files` and `bytes` wait to be rewritten,
    as far as the formats count them. `oldest_pending_at` is when the oldest pending plan was requested.
    """

    at: datetime
    tables: int
    pending: int
    commits: int
    files: int
    bytes: int
    oldest_pending_at: datetime | None
    oldest_pending_seconds: float | None


class DebtCurveBody(BaseModel):
    """The points of one service, the oldest first. `service` is null for all services together."""

    service: Service | None
    points: list[DebtPointBody]


class DebtSeriesBody(BaseModel):
    """Curves of debt from `since` to `until`.

    Two points are at least `step_seconds` apart. No daemon measured at a moment without a point.
    """

    since: datetime
    until: datetime
    step_seconds: int
    series: list[DebtCurveBody]


def add_debt(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.get("/v1/fleet/debt", responses=errors(422, 503), openapi_extra=needs(Role.VIEWER, whole=True))
    def fleet_debt(since: Moment | None = None, until: Moment | None = None, by: By | None = None) -> DebtSeriesBody:
        """Return what had piled up in all tables, over time.

        The default is the last day. A span that ends before it begins has no points. `by=service` returns a curve for
        each service. Points are a minute apart for six
        hours, five minutes for two days, and an hour before.
        """
        return debt_series(plane, None, since=since, until=until or clock.now(), by=by)

    @app.get("/v1/tables/{table}/debt", responses=errors(404, 422, 503), openapi_extra=needs(Role.VIEWER))
    def table_debt(
        table: str, since: Moment | None = None, until: Moment | None = None, by: By | None = None
    ) -> DebtSeriesBody:
        """Return what had piled up in a table, over time.

        The default is the last day. `by=service` returns a curve for each service. The points of many tables are
        further apart (`history.debt_points`).
        """
        of = registered(plane, table).table.id
        return debt_series(plane, of, since=since, until=until or clock.now(), by=by)


def debt_series(
    plane: ControlPlane, table: TableId | None, *, since: datetime | None, until: datetime, by: By | None
) -> DebtSeriesBody:
    """Return the curves of a table, or of all tables (None). Raises TemporaryError if the store does not answer."""
    try:
        begin = until - _DAY if since is None else since
    except OverflowError:  # the year 1
        begin = until
    finest = _finest(until - begin)
    grain, points = _thinned(plane.history().debt(table, since=begin, until=until, grain=finest), finest)
    services: Sequence[Service | None] = (
        sorted({service for point in points for service in point.services}) if by == "service" else [None]
    )
    return DebtSeriesBody(
        since=begin,
        until=until,
        step_seconds=grain * 60,
        series=[DebtCurveBody(service=service, points=_bodies(points, service)) for service in services],
    )


def _finest(span: timedelta) -> int:
    """Return the smallest distance that is read. Fine points are few, because they are kept for a short time."""
    fits = (grain for grain in GRAINS[2:] if span / timedelta(minutes=grain) < MOST_POINTS)
    coarse = next(fits, GRAINS[-1])
    return GRAINS[0] if coarse == GRAINS[2] else coarse


def _thinned(points: Sequence[DebtPoint], finest: int) -> tuple[int, Sequence[DebtPoint]]:
    """Return the smallest distance, from `finest` on, with no more than MOST_POINTS moments, and the points that
    have it.
    """
    for grain in (one for one in GRAINS if one >= finest):
        kept = [point for point in points if point.grain >= grain]
        if len({point.at for point in kept}) <= MOST_POINTS:
            return grain, kept
    return GRAINS[-1], kept


def _bodies(points: Sequence[DebtPoint], service: Service | None) -> list[DebtPointBody]:
    return [_body(at, tables, debt) for at, tables, debt in points_of(points, service)][-MOST_POINTS:]


def _body(at: datetime, tables: int, debt: Debt) -> DebtPointBody:
    return DebtPointBody(
        at=at,
        tables=tables,
        pending=debt.pending,
        commits=debt.commits,
        files=debt.files,
        bytes=debt.bytes,
        oldest_pending_at=debt.oldest,
        oldest_pending_seconds=None if debt.oldest is None else max(0.0, (at - debt.oldest).total_seconds()),
    )
