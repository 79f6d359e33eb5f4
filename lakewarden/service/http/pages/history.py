"""`/tables/{table}/history`: what was known, decided and running at a past moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Step, Timeline
from lakewarden.planners.settings import shown
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.live.etags import LiveRuns
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.query.lists import runs_of
from lakewarden.service.http.query.pages import with_room
from lakewarden.service.http.registered import registered, run_for
from lakewarden.service.http.routes.explain import explained_at
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import DecisionChange, Run, RunState
from lakewarden.service.reporting.event_log import written_out
from lakewarden.service.reporting.picture import TimeRange, bars, drawn

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
        past, of = plane.history(), status.table.id
        held = past.decisions_at(of, moment)
        changes = past.decision_changes(of, service=None, before=before, limit=_CHANGES + 1)
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


# `/runs`, `/runs/{run}` and `/acts`: what was done, and who asked for it.

_ROWS = 100
_LOG_LINES = 200
_ORDER = tuple(Step)
_CHOICES: dict[str, tuple[RunState, ...]] = {
    "all": (),
    "active": tuple(state for state in RunState if not state.ended),
    "failed": (RunState.FAILED,),
    "succeeded": (RunState.SUCCEEDED,),
    "cancelled": (RunState.CANCELLED,),
}
_Id = Annotated[str, Query(max_length=1000, pattern=r"^[^\x00-\x1f]*$")]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepShown:
    """A step of a run, and whether it is `done`, `now`, or `not yet` begun."""

    name: str
    state: str


def add_runs(app: FastAPI, plane: ControlPlane, rendering: Rendering, live: LiveRuns) -> None:
    """Add the pages."""

    @app.get("/runs", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def runs(request: Request, table: _Id = "", state: _Id = "all", active: _Id = "", after: _Id = "") -> HTMLResponse:
        """Return a page of runs, the newest first."""
        choice = "active" if active else state
        if choice not in _CHOICES:
            raise ApiError(422, "invalid", f"query.state: {choice!r} is none of {', '.join(_CHOICES)}")
        rows, cursor = runs_of(
            plane,
            caller_of(request),
            table=table or None,
            states=_CHOICES[choice],
            after=after or None,
            limit=_ROWS,
        )
        return rendering.page(
            request,
            "runs",
            here="runs",
            table=table,
            choice=choice,
            choices={name: address(request, state=name, active=None, after=None) for name in _CHOICES},
            runs=rows,
            waiting=plane.waiting(),
            doing=plane.progress(),
            next=address(request, after=cursor) if cursor else None,
        )

    @app.get("/runs/{run}", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def run(run: str, request: Request) -> HTMLResponse:
        """Return the page of one run."""
        record = run_for(plane, run, caller_of(request))
        body = live.body(record)
        lines = plane.end_of_run_log(record.id, limit=_LOG_LINES)
        return rendering.page(
            request,
            "run",
            here="run",
            run=record,
            told=body,
            steps=steps(record),
            roles=Role,
            log=None if lines is None else log_shown(lines),
            earlier_lines=lines[0].number - 1 if lines else 0,
        )

    @app.get("/acts", include_in_schema=False, openapi_extra=needs(Role.ADMIN, whole=True))
    def acts(request: Request, before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None) -> HTMLResponse:
        """Return what persons and programs did, the newest first."""
        rows = plane.acts(before=before, limit=_ROWS + 1)
        older = address(request, before=rows[_ROWS - 1].number) if len(rows) > _ROWS else None
        return rendering.page(request, "acts", here="acts", acts=rows[:_ROWS], next=older)


@dataclass(frozen=True, kw_only=True, slots=True)
class LineShown:
    """A line of the log of a run, and its level in small letters."""

    text: str
    level: str


def log_shown(lines: Sequence[LogLine]) -> Sequence[LineShown]:
    """Return lines as text. A line that was deleted is told of."""
    before = [*(line.number for line in lines[:1]), *(line.number + 1 for line in lines[:-1])]
    return [
        LineShown(text=text, level=(line.level or "").lower())
        for expected, line in zip(before, lines, strict=True)
        for text in written_out([line], after=expected - 1)
    ]


def steps(run: Run) -> Sequence[StepShown]:
    """Return the steps of a run. The last one with a permit is `now` if the run has not ended."""
    reached = -1 if run.step is None else _ORDER.index(run.step)
    finished = run.state is RunState.SUCCEEDED

    def state(place: int) -> str:
        if place < reached or (place == reached and finished):
            return "done"
        if place == reached:
            return "ended here" if run.state.ended else "now"
        return "not needed" if run.state.ended else "not yet"

    return [StepShown(name=step.value, state=state(place)) for place, step in enumerate(_ORDER)]
