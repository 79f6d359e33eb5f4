"""Pauses of tables, and of all tables."""

from __future__ import annotations

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.registered import answered, registered
from lakewarden.service.model.access import Role

_OPERATOR = needs(Role.OPERATOR)


class PauseRequest(BaseModel):
    """Why something is paused. Operators read it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="paused through the API", max_length=500)


def add_pauses(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.post("/v1/pause", status_code=204, responses=errors(422, 503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def pause(request: Request, said: PauseRequest | None = None) -> None:
        """Pause every table. No more runs are started. The next step of a run under way is refused. A commit that was
        permitted already goes on.
        """
        await answered(plane.commands.pause(None, reason=(said or PauseRequest()).reason, caller=caller_of(request)))

    @app.post("/v1/resume", status_code=204, responses=errors(503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def resume(request: Request) -> None:
        """End the global pause."""
        await answered(plane.commands.resume(None, caller=caller_of(request)))

    @app.post("/v1/tables/{table}/pause", status_code=204, responses=errors(404, 422, 503), openapi_extra=_OPERATOR)
    async def pause_table(table: str, request: Request, said: PauseRequest | None = None) -> None:
        """Pause a table. No more runs are started on it. The next step of a run under way is refused. A commit that was
        permitted already goes on.
        """
        reason, caller = (said or PauseRequest()).reason, caller_of(request)
        await answered(plane.commands.pause(registered(plane, table).table.id, reason=reason, caller=caller))

    @app.post("/v1/tables/{table}/resume", status_code=204, responses=errors(404, 503), openapi_extra=_OPERATOR)
    async def resume_table(table: str, request: Request) -> None:
        """End the pause of a table. Its services leave quarantine and backoff, too."""
        await answered(plane.commands.resume(registered(plane, table).table.id, caller=caller_of(request)))
