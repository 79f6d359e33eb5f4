"""`/tables/{table}`: one table, with its timeline as a picture, its services, its writers and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import SPARK
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.query.pages import ShownMoment
from lakewarden.service.http.reach import registered
from lakewarden.service.http.routes.explain import WriterPart, explained
from lakewarden.service.http.routes.policies import policies_of
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run
from lakewarden.service.page.facts import facts_of, sums_by_service
from lakewarden.service.page.run_pictures import days_drawn
from lakewarden.service.page.timeline_picture import SPANS, TimeRange, bars, drawn, fitting, steady
from lakewarden.service.reporting.writer_options import written_out

_NEWEST = 50
_RUNS_SHOWN = 20
_RUNS_DRAWN = 1000


def add_table(app: FastAPI, plane: ControlPlane, clock: Clock, rendering: Rendering, writers: WriterPart) -> None:
    """Add the page."""

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
        all_bars = bars(timeline, runs)
        window = fitting(all_bars, now=until or now)
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
            picture=_markup(drawn(all_bars, window, now=now, link=_page_of)),
            instants=list(reversed(timeline.instants))[:_NEWEST],
            runs=runs[:_RUNS_SHOWN],
            days=_markup(days_drawn(runs, now, complete=len(runs) < _RUNS_DRAWN)),
            sums=sums_by_service(runs),
            summed=len(runs),
            policies=policies_of(status.table),
            writer_options=_options_shown(writers, status.table, runs),
            holds=plane.holds(status.table.id),
            waiting=plane.waiting(),
            doing=plane.progress(),
            span_name=span,
            spans={name: address(request, span=name) for name in SPANS},
            earlier=address(request, span=span or _name(window.length), until=_moment(window.end - window.length / 2)),
            later=address(request, span=span or _name(window.length), until=_later(window, now)),
        )


def _markup(picture: str | None) -> Markup | None:
    return None if picture is None else Markup(picture)  # noqa: S704 - pictures escape their texts


def _options_shown(writers: WriterPart, table: Table, runs: Sequence[Run]) -> Mapping[str, str]:
    """Return the first engine of the format, and its options to paste, or which one the settings leave open."""
    engine = next(iter(writers.formats[table.format].writer_engines), SPARK)
    try:
        text = written_out(writers.of(table, runs, engine), None, syntax=engine.syntax)
    except PermanentError as open_:
        text = f"# {open_}"
    return {"engine": engine.name, "text": text}


def _page_of(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def _name(length: timedelta) -> str:
    return min(SPANS, key=lambda name: abs(SPANS[name] - length))


def _later(window: TimeRange, now: datetime) -> str | None:
    later = window.end + window.length / 2
    return _moment(later) if later < now else None


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
