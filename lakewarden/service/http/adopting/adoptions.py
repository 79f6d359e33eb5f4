"""`/v1/adoptions`: tables are taken over in waves, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.plane import ControlPlane, TableStatus
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.registered import answered
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.rows import AdoptionPhase, AdoptionRow
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.adoption import not_adoptable, waves_of
from lakewarden.service.rules.proof import missing

_MOST_NAMED = 20
Pattern = Annotated[str, Query(min_length=1, max_length=500, description="The ids of tables, with `*` and `?`.")]


class AdoptionRequest(BaseModel):
    """The tables to take over, by a pattern of their ids, and the shares of them in percent after each wave.

    With `[5, 25]` there are three waves: 5 % of the tables, then up to 25 %, then all. Without `waves` there is one.
    """

    model_config = ConfigDict(extra="forbid")

    tables: str = Field(min_length=1, max_length=500)
    waves: list[Annotated[float, Field(gt=0, lt=100)]] = Field(default=[], max_length=20)

    @field_validator("waves")
    @classmethod
    def _rise(cls, waves: list[float]) -> list[float]:
        if any(later <= earlier for earlier, later in pairwise(waves)):
            raise ValueError("each wave must have a higher percentage than the one before, as in [5, 25]")
        return waves


class AdoptionBody(BaseModel):
    """The adoption of a table: its phase since when, its wave, and what it waits for.

    `waits_for` is why its wave must not begin yet, or what is not proved. `lacking` are the checks that are not ok.
    `setback` is the last one since the table is acted on.
    """

    table: str
    phase: AdoptionPhase
    since: datetime
    mode: str
    wave: int
    waits_for: str | None
    lacking: list[Check]
    setback: str | None
    setback_at: datetime | None
    asked_by: str
    asked_at: datetime


class RefusedBody(BaseModel):
    """A table that is not taken over, with the reason."""

    table: str
    reason: str


class AdoptionsBody(BaseModel):
    """Adoptions in the order of their waves. `refused` are tables that a request means and that are not taken over, 20
    at most.
    """

    items: list[AdoptionBody]
    refused: list[RefusedBody] = []


class UnderWayBody(BaseModel):
    """A run on a table that is given back. `becomes` says what becomes of it."""

    table: str
    run: str
    service: str
    state: RunState
    becomes: str


class GivenBackBody(BaseModel):
    """The tables that were given back, and their runs that had begun."""

    tables: list[str]
    runs: list[UnderWayBody]


_QUEUED = "it has not begun, and is cancelled"
_BEGUN = "it goes on and may commit; the table is given back when it has ended. Cancel it to stop it"


def add_adoptions(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.get("/v1/adoptions", responses=errors(), openapi_extra=needs(Role.VIEWER))
    def adoptions(request: Request, tables: Pattern = "*") -> AdoptionsBody:
        """List the adoptions of tables: their phases, and what they wait for."""
        return AdoptionsBody(items=_bodies(plane, caller_of(request), tables))

    @app.post("/v1/adoptions", responses=errors(409, 422, 503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def adopt(request: Request, asked: AdoptionRequest) -> AdoptionsBody:
        """Take tables over. They go from phase to phase by themselves. 409 if no table of the pattern can be taken
        over.
        """
        caller = caller_of(request)
        known = {row.table: row for row in plane.adoptions()}
        refused, able = [], list[TableId]()
        for status in _meant(plane, caller, asked.tables):
            why = not_adoptable(_configured(status.table), known.get(status.table.id))
            if why is None:
                able.append(status.table.id)
            else:
                refused.append(RefusedBody(table=status.table.id, reason=why))
        if not able:
            why = f"{refused[0].table}: {refused[0].reason}" if refused else "no table has such an id"
            raise ApiError(409, "blocked", f"no table of {asked.tables} can be taken over: {why}")
        await answered(plane.adopt(waves_of(able, asked.waves), caller=caller), unknown="see /v1/adoptions")
        taken = [one for one in _bodies(plane, caller, asked.tables) if one.table in able]
        return AdoptionsBody(items=taken, refused=refused[:_MOST_NAMED])

    @app.delete("/v1/adoptions", responses=errors(404, 422, 503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def give_back(request: Request, tables: Pattern) -> GivenBackBody:
        """Give tables back. They are only observed from now on, and their claims are let go. A run that has begun goes
        on. A run in the queue is cancelled.
        """
        caller = caller_of(request)
        found = list(_meant(plane, caller, tables))
        if not found:
            raise ApiError(404, "not_found", f"no table has an id like {tables!r}")
        runs = [
            UnderWayBody(
                table=run.table,
                run=run.id,
                service=run.service.value,
                state=run.state,
                becomes=_QUEUED if run.state is RunState.QUEUED else _BEGUN,
            )
            for status in found
            for run in status.active
        ]
        ids = [status.table.id for status in found]
        await answered(plane.give_back(ids, caller=caller), unknown="see /v1/adoptions")
        return GivenBackBody(tables=list(ids), runs=runs)


def _configured(table: Table) -> Table:
    """Return a table with the mode of the configuration."""
    return table if table.configured_mode is None else replace(table, mode=table.configured_mode)


def _meant(plane: ControlPlane, caller: Caller, pattern: str) -> Iterator[TableStatus]:
    for status in plane.tables():
        if caller.reaches(status.table.id) and fnmatchcase(status.table.id, pattern):
            yield status


def _bodies(plane: ControlPlane, caller: Caller, pattern: str) -> list[AdoptionBody]:
    statuses = {status.table.id: status for status in _meant(plane, caller, pattern)}
    rows = [(row, why) for row, why in plane.adoptions().items() if row.table in statuses]
    ordered = sorted(rows, key=lambda one: (one[0].asked_at, one[0].wave, one[0].table))
    return [_body(plane, statuses[row.table], row, why) for row, why in ordered]


def _body(plane: ControlPlane, status: TableStatus, row: AdoptionRow, closed: str | None) -> AdoptionBody:
    proving = row.phase in (AdoptionPhase.PROVING, AdoptionPhase.PLANNING, AdoptionPhase.WAITING)
    lacking = missing(plane.proof(status), status.table) if proving else ()
    said = "; ".join(f"{one.check}: {one.found}" for one in lacking)
    return AdoptionBody(
        table=row.table,
        phase=row.phase,
        since=row.since,
        mode=status.table.mode.value,
        wave=row.wave,
        waits_for=closed or said or None,
        lacking=[one.check for one in lacking],
        setback=row.setback,
        setback_at=row.setback_at,
        asked_by=row.asked_by,
        asked_at=row.asked_at,
    )
