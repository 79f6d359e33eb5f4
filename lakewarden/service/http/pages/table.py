"""`/tables/{table}`: one table, with its timeline as a picture, its services, its writers and its runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.timeline import Timeline
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.pages.writers import WriterPart
from lakewarden.service.http.query.moments import ShownMoment
from lakewarden.service.http.registered import registered
from lakewarden.service.http.routes.explain import explained
from lakewarden.service.http.routes.policies import policies_of
from lakewarden.service.model.access import Role
from lakewarden.service.page.facts import facts_of
from lakewarden.service.reporting.picture.axis import SPANS, TimeRange, fitting, steady
from lakewarden.service.reporting.picture.bars import bars
from lakewarden.service.reporting.picture.svg import drawn

_NEWEST = 50
_RUNS_SHOWN = 20
_RUNS_DRAWN = 1000


def add_table(app: FastAPI, plane: ControlPlane, clock: Clock, rendering: Rendering, writers: WriterPart) -> None:
    """Add the page. `writers` says what writers have to set."""

    @app.get("/tables/{table}", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def table(
        table: str,
        request: Request,
        span: Annotated[str, Query(max_length=10)] = "",
        until: ShownMoment | None = None,
    ) -> HTMLResponse:
        """Return the page of one table. The picture shows `span` `until` a moment, by default the newest instants."""
        status, now = registered(plane, table), clock.now()
        if span and span not in SPANS:
            raise ApiError(422, "invalid", f"query.span: {span!r} is none of {', '.join(SPANS)}")
        view, polled_ago = status.view, plane.polled_ago(status.table.id)
        timeline = view.timeline if view else Timeline(instants=())
        runs = plane.runs(table=status.table.id, limit=_RUNS_DRAWN)
        found = bars(timeline, runs)
        window = fitting(found, now=until or now)
        if span:
            window = TimeRange(begin=window.end - SPANS[span], end=window.end)
        window = window if until else steady(window)
        return rendering.page(
            request,
            "table",
            here="table",
            now=now,
            told=explained(plane, status, clock),
            observed_at=None if polled_ago is None else now - polled_ago,
            facts=facts_of(status),
            owner=status.owner,
            roles=Role,
            picture=Markup(drawn(found, window, now=now, link=_page_of)),  # noqa: S704 - it escapes
            instants=list(reversed(timeline.instants))[:_NEWEST],
            runs=runs[:_RUNS_SHOWN],
            policies=policies_of(status.table),
            writer_options=writers.of(status.table, runs),
            holds=plane.holds(status.table.id),
            waiting=plane.waiting(),
            doing=plane.progress(),
            span_name=span,
            spans={name: address(request, span=name) for name in SPANS},
            earlier=address(request, span=span or _name(window.length), until=_moment(window.end - window.length / 2)),
            later=address(request, span=span or _name(window.length), until=_later(window, now)),
        )


def _page_of(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def _name(length: timedelta) -> str:
    return min(SPANS, key=lambda name: abs(SPANS[name] - length))


def _later(window: TimeRange, now: datetime) -> str | None:
    later = window.end + window.length / 2
    return _moment(later) if later < now else None


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
