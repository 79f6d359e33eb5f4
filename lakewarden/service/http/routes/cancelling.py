"""Runs that an operator cancels, and runs that are tried again."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.registered import answered, policy_of, registered
from lakewarden.service.http.routes.runs import RunRequest, requested
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run, RunState


def add_cancelling(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.post(
        "/v1/tables/{table}/runs/{run}/cancel",
        status_code=202,
        responses=errors(404, 409, 503),
        openapi_extra=needs(Role.OPERATOR),
    )
    async def cancel_run(table: str, run: str, request: Request) -> RunBody:
        """Stop a run that has not begun to commit, and return it. It may still be ending.

        A plan of it stays pending. Its service backs off for ten minutes. 409 if the run has ended, or commits.
        """
        status, found = registered(plane, table), _of_table(plane, table, run)
        cancelled = await answered(plane.commands.cancel(status.table.id, found.id, caller=caller_of(request)))
        if cancelled is None:
            raise ApiError(409, "blocked", f"run {run} has ended: {found.state}")
        return run_body(cancelled, now=clock.now())

    @app.post(
        "/v1/tables/{table}/runs/{run}/retry",
        status_code=202,
        responses={
            200: {"model": RunBody, "description": "The run of the service that is already active."},
            **errors(404, 409, 503),
        },
        openapi_extra=needs(Role.TRIGGER),
    )
    async def retry_run(table: str, run: str, request: Request, response: Response) -> RunBody:
        """Run the service of a run again, as that run was asked for. 409 if the run has not ended, or has succeeded.

        A block is not skipped: `DELETE .../quarantine` ends a backoff and a quarantine.
        """
        status, found = registered(plane, table), _of_table(plane, table, run)
        if found.state not in (RunState.FAILED, RunState.CANCELLED):
            raise ApiError(409, "blocked", f"run {run} is {found.state}: only a failed or cancelled run is retried")
        whole = found.rewrite_all is not None
        asked = RunRequest(rewrite_all=whole, dry_run=found.dry_run)
        answer = await requested(plane, status, policy_of(status, found.service), asked, caller_of(request))
        response.status_code = 202 if answer.new else 200
        return run_body(answer.run, now=clock.now())


def _of_table(plane: ControlPlane, table: str, run: str) -> Run:
    """Return a run of a table. Raises ApiError (404) if the table has no such run."""
    found = plane.run(RunId(run))
    if found is None or found.table != table:
        raise ApiError(404, "not_found", f"table {table} has no run {run}")
    return found
