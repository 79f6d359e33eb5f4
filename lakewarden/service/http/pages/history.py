"""`/tables/{table}/history`: what was known, decided and running at a past moment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.settings import shown
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.query.moments import with_room
from lakewarden.service.http.registered import registered
from lakewarden.service.http.routes.explain import explained_at
from lakewarden.service.model.access import Role
from lakewarden.service.model.history import DecisionChange
from lakewarden.service.reporting.picture.axis import TimeRange
from lakewarden.service.reporting.picture.bars import bars
from lakewarden.service.reporting.picture.svg import drawn

_CHANGES = 50
_AROUND = timedelta(minutes=30)
_RUNS = 1000
_TICK = timedelta(microseconds=1)


def add_history(app: FastAPI, plane: ControlPlane, clock: Clock, rendering: Rendering) -> None:
    """Add the page."""

    @app.get("/tables/{table}/history", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def history(
        table: str,
        request: Request,
        at: Annotated[str, Query(max_length=40)] = "",
        before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    ) -> HTMLResponse:
        """Return the page of a past moment, by default the present. A moment without a zone is in UTC."""
        status, now = registered(plane, table), clock.now()
        moment = min(_moment(at), now) if at else now
        known, of = plane.history(), status.table.id
        held = known.decisions_at(of, moment)
        changes = known.decision_changes(of, service=None, before=before, limit=_CHANGES + 1)
        timeline = status.view.timeline if status.view else Timeline(instants=())
        window = TimeRange(begin=moment - _AROUND, end=min(moment + _AROUND, now))
        return rendering.page(
            request,
            "history",
            here="history",
            table=of,
            at=moment,
            told=explained_at(plane, status, moment, now=now),
            earlier=_link(request, _before(held)),
            later=_link(request, _after(held, now)),
            changes=changes[:_CHANGES],
            older=address(request, before=changes[_CHANGES - 1].number) if len(changes) > _CHANGES else None,
            link_at=lambda change: _link(request, change.decision.decided_at),
            picture=Markup(drawn(bars(timeline, plane.runs(table=of, limit=_RUNS)), window, now=now)),  # noqa: S704
        )


def _moment(text: str) -> datetime:
    """Return the moment that a person wrote, or that a form sent. Raises ApiError (422)."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as wrong:
        raise ApiError(
            422, "invalid", f"query.at: {shown(text)} is no time", "write it as 2026-05-01T12:00:00"
        ) from wrong
    try:
        return with_room(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    except ValueError as far:
        raise ApiError(422, "invalid", f"query.at: {far}") from far


def _before(held: Iterable[DecisionChange]) -> datetime | None:
    """Return a moment before the newest change."""
    newest = max((change.decision.decided_at for change in held), default=None)
    return None if newest is None else newest - _TICK


def _after(held: Iterable[DecisionChange], now: datetime) -> datetime | None:
    """Return the moment of the next change."""
    return min((change.until for change in held if change.until is not None and change.until <= now), default=None)


def _link(request: Request, moment: datetime | None) -> str | None:
    return None if moment is None else address(request, at=moment.isoformat(), before=None)
