"""The clean barrier: a writer has the cleans of a table wait while it commits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Request
from pydantic import AfterValidator, BaseModel, ConfigDict

from lakewarden.planners.settings import Duration, format_duration
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import Page
from lakewarden.service.http.reach import CONTROL_THREAD_ANSWERS_WITHIN, answered, registered
from lakewarden.service.model.access import Role
from lakewarden.service.state.barriers import LONGEST_HOLD, LONGEST_WAIT

_ENDS = "holds end by themselves"
_TRIGGER = needs(Role.TRIGGER)


def _at_most(longest: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value > longest:
            raise ValueError(f"is at most {format_duration(longest)}")
        return value

    return AfterValidator(check)


class BarrierRequest(BaseModel):
    """How long to delay cleans after none is executing, and how long to wait for that."""

    model_config = ConfigDict(extra="forbid")

    hold: Annotated[Duration, _at_most(LONGEST_HOLD)] = timedelta(seconds=10)
    wait: Annotated[Duration, _at_most(LONGEST_WAIT)] = timedelta(seconds=30)


class BarrierBody(BaseModel):
    """No clean of the table is executing, and none will before `held_until`. `hold` is the id that ends the hold."""

    table: str
    hold: str
    owner: str
    waited_seconds: float
    held_until: datetime


class HoldBody(BaseModel):
    """A hold on the cleans of a table. `owner` is the name of the caller that has it."""

    id: str
    owner: str
    held_until: datetime


class HoldPage(Page[HoldBody]):
    """The holds on the cleans of a table. There is one page."""


def add_barriers(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.post("/v1/tables/{table}/barrier", responses=errors(404, 422, 503), openapi_extra=_TRIGGER)
    async def hold_cleans(table: str, request: Request, body: BarrierRequest | None = None) -> BarrierBody:
        """Wait until no clean of the table is executing, and delay new cleans for a time in which to commit.

        503 if the wait runs out. A clean that was delayed for some minutes goes before any further hold.
        """
        terms, caller = body or BarrierRequest(), caller_of(request)
        future = plane.commands.hold_cleans(
            registered(plane, table).table.id, hold=terms.hold, wait=terms.wait, caller=caller
        )
        held = await answered(
            future,
            within=terms.wait + CONTROL_THREAD_ANSWERS_WITHIN,
            unknown="no clean waits for you; ask again",
        )
        return BarrierBody(
            table=table,
            hold=held.id,
            owner=caller.name,
            waited_seconds=round(held.waited.total_seconds(), 3),
            held_until=held.until,
        )

    @app.get("/v1/tables/{table}/barrier", responses=errors(404, 503), openapi_extra=needs(Role.VIEWER))
    def holds(table: str) -> HoldPage:
        """Return the holds on the cleans of the table, the first to end first."""
        rows = plane.holds(registered(plane, table).table.id)
        return HoldPage(items=[HoldBody(id=hold.id, owner=hold.owner, held_until=hold.until) for hold in rows])

    @app.delete("/v1/tables/{table}/barrier", status_code=204, responses=errors(404, 503), openapi_extra=_TRIGGER)
    async def release_cleans(table: str, request: Request) -> None:
        """End the holds of the caller on the cleans of the table. An operator ends those of all callers."""
        lifted = plane.commands.release_cleans(registered(plane, table).table.id, caller=caller_of(request))
        await answered(lifted, unknown=_ENDS)

    @app.delete(
        "/v1/tables/{table}/barrier/{hold}", status_code=204, responses=errors(404, 409, 503), openapi_extra=_TRIGGER
    )
    async def release_hold(table: str, hold: str, request: Request) -> None:
        """End one hold. 404 if it has ended. 409 if it belongs to another caller, and the caller is no operator."""
        lifted = plane.commands.release_cleans(registered(plane, table).table.id, hold=hold, caller=caller_of(request))
        if not await answered(lifted, unknown=_ENDS):
            raise ApiError(404, "not_found", f"table {table} has no hold {hold!r}: it has ended, or there was none")
