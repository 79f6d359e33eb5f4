"""`/runs`, `/runs/{run}` and `/acts`: what was done, and who asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.query.lists import runs_of
from lakewarden.service.http.reach import run_bodies, run_for
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.page.run_pictures import steps_drawn
from lakewarden.service.reporting.event_log import written_out

_ROWS = 100
_LOG_LINES = 200
_ORDER = tuple(Step)
_CHOICES: dict[str, tuple[RunState, ...]] = {
    "all": (),
    "active": tuple(state for state in RunState if not state.ended),
    "failed": (RunState.FAILED,),
    "succeeded": (RunState.SUCCEEDED,),
    "cancelled": (RunState.CANCELLED,),
    "yielded": (RunState.YIELDED,),
}
_Id = Annotated[str, Query(max_length=1000, pattern=r"^[^\x00-\x1f]*$")]


def add_run_pages(app: FastAPI, plane: ControlPlane, clock: Clock, rendering: Rendering) -> None:
    """Add the pages."""

    @app.get("/runs", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def runs(
        *,
        request: Request,
        table: _Id = "",
        service: Service | Literal[""] = "",
        state: _Id = "all",
        active: _Id = "",
        after: _Id = "",
    ) -> HTMLResponse:
        """Return a page of runs, the newest first."""
        choice = "active" if active else state
        if choice not in _CHOICES:
            raise ApiError(422, "invalid", f"query.state: {choice!r} is none of {', '.join(_CHOICES)}")
        rows, cursor = runs_of(
            plane,
            caller_of(request),
            table=table or None,
            service=service or None,
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
            choices=tuple(_CHOICES),
            service=service,
            services=tuple(Service),
            runs=rows,
            waiting=plane.waiting(),
            doing=plane.progress(),
            next=address(request, after=cursor) if cursor else None,
        )

    @app.get("/runs/{run}", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def run(run: str, request: Request) -> HTMLResponse:
        """Return the page of one run."""
        record = run_for(plane, run, caller_of(request))
        [body] = run_bodies(plane, [record], now=clock.now())
        lines, picture = plane.end_of_run_log(record.id, limit=_LOG_LINES), steps_drawn(record)
        return rendering.page(
            request,
            "run",
            here="run",
            run=record,
            told=body,
            steps=_steps(record),
            picture=None if picture is None else Markup(picture),  # noqa: S704 - it has no text of others
            roles=Role,
            log=None if lines is None else _log_shown(lines),
            earlier_lines=lines[0].number - 1 if lines else 0,
        )

    @app.get("/acts", include_in_schema=False, openapi_extra=needs(Role.ADMIN, whole=True))
    def acts(request: Request, before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None) -> HTMLResponse:
        """Return what persons and programs did, the newest first."""
        rows = plane.acts(before=before, limit=_ROWS + 1)
        older = address(request, before=rows[_ROWS - 1].number) if len(rows) > _ROWS else None
        return rendering.page(request, "acts", here="acts", acts=rows[:_ROWS], next=older)


def _log_shown(lines: Sequence[LogLine]) -> Sequence[tuple[str, str]]:
    """Return lines as text, each with its level in small letters. A line that was deleted is told of."""
    before = [*(line.number for line in lines[:1]), *(line.number + 1 for line in lines[:-1])]
    return [
        (text, (line.level or "").lower())
        for expected, line in zip(before, lines, strict=True)
        for text in written_out([line], after=expected - 1)
    ]


def _steps(run: Run) -> Sequence[tuple[str, str]]:
    """Return the steps of a run, and whether each is done, now, or not yet begun. The last one with a permit is `now`
    if the run has not ended.
    """
    reached = -1 if run.step is None else _ORDER.index(run.step)
    finished = run.state is RunState.SUCCEEDED

    def state(place: int) -> str:
        if place < reached or (place == reached and finished):
            return "done"
        if place == reached:
            return "ended here" if run.state.ended else "now"
        return "not needed" if run.state.ended else "not yet"

    return [(step.value, state(place)) for place, step in enumerate(_ORDER)]
