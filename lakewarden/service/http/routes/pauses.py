"""Pauses of tables, the release of their services from quarantine, and the end of runs."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.reach import answered, policy_of, registered
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run

_OPERATOR = needs(Role.OPERATOR)
_LONGEST_REASON = 500


class PauseRequest(BaseModel):
    """Why something is paused. Operators read it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="no reason given", max_length=_LONGEST_REASON)


def _of_page(request: Request) -> PauseRequest:
    """Return the reason that was typed on the page, percent-encoded in the header of htmx' prompt."""
    typed = unquote(request.headers.get("HX-Prompt", ""))[:_LONGEST_REASON]
    return PauseRequest(reason=typed) if typed else PauseRequest()


def add_pauses(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.post("/v1/pause", status_code=204, responses=errors(422, 503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def pause(request: Request, body: PauseRequest | None = None) -> None:
        """Pause every table. No more runs are started. The next step of a run under way is refused. A commit that was
        permitted already goes on.
        """
        await answered(plane.commands.pause(None, reason=(body or PauseRequest()).reason, caller=caller_of(request)))

    @app.post("/v1/resume", status_code=204, responses=errors(503), openapi_extra=needs(Role.OPERATOR, whole=True))
    async def resume(request: Request) -> None:
        """End the global pause."""
        await answered(plane.commands.resume(None, caller=caller_of(request)))

    @app.post("/v1/tables/{table}/pause", status_code=204, responses=errors(404, 422, 503), openapi_extra=_OPERATOR)
    async def pause_table(table: str, request: Request, body: PauseRequest | None = None) -> None:
        """Pause a table. No more runs are started on it. The next step of a run under way is refused. A commit that was
        permitted already goes on.
        """
        reason, caller = (body or _of_page(request)).reason, caller_of(request)
        await answered(plane.commands.pause(registered(plane, table).table.id, reason=reason, caller=caller))

    @app.post("/v1/tables/{table}/resume", status_code=204, responses=errors(404, 503), openapi_extra=_OPERATOR)
    async def resume_table(table: str, request: Request) -> None:
        """End the pause of a table. Its services leave quarantine and backoff, too."""
        await answered(plane.commands.resume(registered(plane, table).table.id, caller=caller_of(request)))

    @app.delete(
        "/v1/tables/{table}/services/{service}/quarantine",
        status_code=204,
        responses=errors(404, 503),
        openapi_extra=_OPERATOR,
    )
    async def release(table: str, service: str, request: Request) -> None:
        """End the quarantine and the backoff of a service of the table. 404 if there is neither."""
        status = registered(plane, table)
        policy_service = policy_of(status, service)
        if not await answered(plane.commands.release(status.table.id, policy_service, caller=caller_of(request))):
            raise ApiError(404, "not_found", f"{policy_service} of table {table} is not in quarantine or backing off")

    @app.post(
        "/v1/tables/{table}/runs/{run}/cancel",
        status_code=202,
        responses=errors(404, 409, 503),
        openapi_extra=_OPERATOR,
    )
    async def cancel_run(table: str, run: str, request: Request) -> RunBody:
        """Stop a run that has not begun to commit, and return it. It may still be ending.

        A plan of it stays pending. Its service backs off for ten minutes. 409 if the run has ended, or commits.
        """
        status, record = registered(plane, table), _of_table(plane, table, run)
        cancelled = await answered(plane.commands.cancel(status.table.id, record.id, caller=caller_of(request)))
        if cancelled is None:
            raise ApiError(409, "blocked", f"run {run} has ended: {record.state}")
        return run_body(cancelled, now=clock.now())


def _of_table(plane: ControlPlane, table: str, run: str) -> Run:
    """Return a run of a table. Raises ApiError (404) if the table has no such run."""
    record = plane.run(RunId(run))
    if record is None or record.table != table:
        raise ApiError(404, "not_found", f"table {table} has no run {run}")
    return record
