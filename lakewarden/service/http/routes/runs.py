"""Runs: request and read one, and withdraw a rewrite of all files."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, DoesNotApply, NotDue, WouldRun, remedy_of
from lakewarden.planners.model.instant import Service
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.reach import answered, policy_of, registered, run_bodies, run_for
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.access import Caller, Role

_VIEWER = needs(Role.VIEWER)


class RunRequest(BaseModel):
    """What a run is asked for. Without a body the run does what the service finds due.

    `rewrite_all` rewrites all files that the table has now, in as many runs as that takes.
    """

    model_config = ConfigDict(extra="forbid")

    rewrite_all: bool = False


async def requested(
    plane: ControlPlane, status: TableStatus, service: Service, wanted: RunRequest, caller: Caller
) -> RunGiven:
    """Request a run. Raises ApiError (409) if the service is blocked."""
    future = plane.commands.request_run(
        status.table.id,
        service,
        by=caller.name,
        caller=caller,
        rewrite_all=wanted.rewrite_all,
    )
    answer = await answered(future)
    if isinstance(answer, Blocked | NotDue | WouldRun | DoesNotApply):
        raise ApiError(409, "blocked", _why_no_run(answer), remedy_of(answer))
    return answer


def _why_no_run(answer: Blocked | NotDue | WouldRun | DoesNotApply) -> str:
    match answer:
        case NotDue():
            return f"no run begins: {answer.reason}"
        case WouldRun():
            return "the mode of the table only lets it be planned"
        case _:
            return answer.reason


def add_runs(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.post(
        "/v1/tables/{table}/services/{service}/runs",
        status_code=202,
        responses={
            200: {"model": RunBody, "description": "The run that is already active."},
            **errors(404, 409, 422, 503),
        },
        openapi_extra=needs(Role.TRIGGER),
    )
    async def request_run(
        table: str, service: str, request: Request, response: Response, body: RunRequest | None = None
    ) -> RunBody:
        """Run a service now. The run skips the trigger and the window of the policy. It never skips a block."""
        status = registered(plane, table)
        answer = await requested(plane, status, policy_of(status, service), body or RunRequest(), caller_of(request))
        response.status_code = 202 if answer.new else 200
        return run_body(answer.run, now=clock.now())

    @app.delete(
        "/v1/tables/{table}/services/{service}/rewrite",
        status_code=204,
        responses=errors(404, 503),
        openapi_extra=needs(Role.TRIGGER),
    )
    async def end_rewrite(table: str, service: str, request: Request) -> None:
        """Withdraw a rewrite of all files. What is rewritten already stays. A run of it that is active may finish."""
        status, caller = registered(plane, table), caller_of(request)
        if not await answered(plane.commands.end_rewrite(status.table.id, policy_of(status, service), caller=caller)):
            raise ApiError(404, "not_found", f"no rewrite of all files of {status.table.id} was requested")

    @app.get("/v1/runs/{run}", responses=errors(404, 503), openapi_extra=_VIEWER)
    def run(run: str, request: Request) -> RunBody:
        """Return one run."""
        [body] = run_bodies(plane, [run_for(plane, run, caller_of(request))], now=clock.now())
        return body
