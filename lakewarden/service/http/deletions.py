"""What people and writers have a say in when something is deleted: approvals beyond a budget, and the clean barrier."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import FastAPI
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.settings import Duration, format_duration
from lakewarden.service.control.plane import ControlPlane, TableStatus
from lakewarden.service.state.barriers import LONGEST_HOLD, LONGEST_WAIT

_ANSWER = timedelta(seconds=30)


def _at_most(longest: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value > longest:
            raise ValueError(f"is at most {format_duration(longest)}")
        return value

    return AfterValidator(check)


class ApprovalRequest(BaseModel):
    """Who approves: people will read it."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(default="api", min_length=1, max_length=64)


class BarrierRequest(BaseModel):
    """How long to hold cleans back once none is executing, and how long to wait for that."""

    model_config = ConfigDict(extra="forbid")

    hold: Annotated[Duration, _at_most(LONGEST_HOLD)] = timedelta(seconds=10)
    wait: Annotated[Duration, _at_most(LONGEST_WAIT)] = timedelta(seconds=30)


class BarrierBody(BaseModel):
    """No clean of the table is executing, and none will before `held_until`."""

    table: str
    waited_seconds: float
    held_until: datetime


def add_deletions(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.post("/v1/tables/{table}/services/{service}/approval", status_code=204)
    async def approve(table: str, service: str, request: ApprovalRequest | None = None) -> None:
        """Let the deletion that was shown through, once, at most as large as it was shown. 409 where none waits."""
        status = _status(plane, table)
        known = next((known for known in status.table.policies if known == service), None)
        if known is None:
            raise HTTPException(404, f"table {table} has no policy for {service!r}")
        given = plane.approve(status.table.id, known, by=(request or ApprovalRequest()).by)
        if not await asyncio.wait_for(asyncio.wrap_future(given), _ANSWER.total_seconds()):
            raise PermanentError(f"no deletion by {known} of table {table} waits for an approval")

    @app.post("/v1/tables/{table}/barrier")
    async def hold_cleans(table: str, request: BarrierRequest | None = None) -> BarrierBody:
        """Wait until no clean of the table is executing, and hold new ones back: before a commit, as ours does.

        503 where the wait runs out. A hold is short, for a writer to commit in; a clean that was held back for some
        minutes goes before any further hold.
        """
        asked = request or BarrierRequest()
        future = plane.hold_cleans(_status(plane, table).table.id, hold=asked.hold, wait=asked.wait)
        try:
            held = await asyncio.wait_for(asyncio.wrap_future(future), (asked.wait + _ANSWER).total_seconds())
        except TimeoutError:
            raise TemporaryError("the control thread is busy: no clean is held back for you") from None
        return BarrierBody(table=table, waited_seconds=round(held.waited.total_seconds(), 3), held_until=held.until)

    @app.delete("/v1/tables/{table}/barrier", status_code=204)
    async def release_cleans(table: str) -> None:
        """End every hold on the table's cleans."""
        released = plane.release_cleans(_status(plane, table).table.id)
        await asyncio.wait_for(asyncio.wrap_future(released), _ANSWER.total_seconds())


def _status(plane: ControlPlane, table: str) -> TableStatus:
    status = plane.table(TableId(table))
    if status is None:
        raise HTTPException(404, f"no table {table!r} is registered")
    return status
