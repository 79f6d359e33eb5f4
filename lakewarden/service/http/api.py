"""The REST API and the commit hooks."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Annotated, TypeVar

import structlog
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

import lakewarden
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.http.deletions import add_deletions
from lakewarden.service.http.explain import add_explain
from lakewarden.service.http.forwarding import forwarding
from lakewarden.service.http.hooks import HookHeard, add_hooks
from lakewarden.service.http.limits import BodyLimit
from lakewarden.service.http.port import ControlPlane, TableStatus
from lakewarden.service.http.schemas import (
    ErrorAnswer,
    ErrorBody,
    PendingBody,
    ReplicaBody,
    RunBody,
    TableBody,
    pending_body,
    replica_body,
    run_body,
    table_body,
)
from lakewarden.service.http.writer_options import add_writer_options
from lakewarden.service.store.port import RunState

log = structlog.get_logger(__name__)

BODY_LIMIT_BYTES = 8 * 2**20
"""A commit callback has some hundred bytes for each file that was written."""

_ANSWER_SECONDS = 30.0

_CODES = {400: "malformed", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
_Answer = TypeVar("_Answer")


class PauseRequest(BaseModel):
    """Why something is paused: people will read it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="paused through the API", max_length=500)


class _ApiError(Exception):
    def __init__(self, status: int, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorAnswer(error=ErrorBody(code=code, message=message, remedy=remedy))


def build_api(
    plane: ControlPlane, *, clock: Clock, hook_heard: HookHeard, url: str = "http://127.0.0.1:8080"
) -> FastAPI:
    """Return the API application over a control plane. `url` is its address for writers."""
    app = FastAPI(title="Lakewarden", version=lakewarden.__version__, redoc_url=None)
    app.add_middleware(BodyLimit, limit=BODY_LIMIT_BYTES)
    app.router.route_class = forwarding(plane)
    _add_error_handlers(app)
    add_hooks(app, plane, hook_heard)
    _add_tables(app, plane)
    add_explain(app, plane, clock)
    add_writer_options(app, plane, url=url)
    _add_runs(app, plane, clock)
    _add_pauses(app, plane)
    add_deletions(app, plane)
    _add_replicas(app, plane)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    def answer(status: int, code: str, message: str) -> JSONResponse:
        return JSONResponse(ErrorAnswer(error=ErrorBody(code=code, message=message)).model_dump(), status)

    @app.exception_handler(_ApiError)
    async def api_error(_request: Request, error: _ApiError) -> JSONResponse:
        return JSONResponse(error.body.model_dump(), error.status)

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, _CODES.get(error.status_code, "refused"), str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()[0]
        return answer(422, "invalid", f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}")

    @app.exception_handler(TemporaryError)
    async def later(_request: Request, error: TemporaryError) -> JSONResponse:
        response = answer(503, "unavailable", str(error))
        response.headers["Retry-After"] = str(max(1, round(error.delay.total_seconds())))
        return response

    @app.exception_handler(PermanentError)
    async def never(_request: Request, error: PermanentError) -> JSONResponse:
        return answer(409, "blocked", str(error))

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        log.error("api_trouble", path=request.url.path, exc_info=error)
        return answer(500, "internal", "an unexpected error: the daemon's log has it")


def _add_tables(app: FastAPI, plane: ControlPlane) -> None:
    @app.get("/v1/tables")
    def tables() -> list[TableBody]:
        """Return every registered table."""
        return [table_body(status) for status in plane.tables()]

    @app.get("/v1/tables/{table}")
    def table(table: str) -> TableBody:
        """Return one table: its health, and what was decided on it and why."""
        return table_body(_table(plane, table))

    @app.get("/v1/tables/{table}/pending")
    def pending(table: str) -> PendingBody:
        """Return the table's pending instants."""
        return pending_body(_table(plane, table))


def _add_runs(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    @app.post("/v1/tables/{table}/services/{service}/runs", status_code=202)
    async def request_run(table: str, service: str, response: Response) -> RunBody:
        """Run a service now: skips trigger and window, never a block. 200 with the active run where there is one."""
        status = _table(plane, table)
        policy = next((known for known in status.table.policies if known == service), None)
        if policy is None:
            able = ", ".join(status.table.policies) or "none"
            raise _ApiError(404, "not_found", f"table {table} has no policy for {service!r}; it has: {able}")
        answer = await _awaited(plane.request_run(status.table.id, policy, by="api"))
        if isinstance(answer, Blocked | NotDue):
            remedy = answer.remedy if isinstance(answer, Blocked) else None
            raise _ApiError(409, "blocked", answer.reason, remedy)
        response.status_code = 202 if answer.new else 200
        return run_body(answer.run, now=clock.now())

    @app.get("/v1/runs")
    def runs(
        table: str | None = None,
        service: Service | None = None,
        state: Annotated[list[RunState] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> list[RunBody]:
        """Return runs, the newest first."""
        waiting = plane.waiting()
        found = plane.runs(
            table=None if table is None else TableId(table), service=service, states=state or (), limit=limit
        )
        return [run_body(run, now=clock.now(), waits_for=waiting.get(run.id)) for run in found]

    @app.get("/v1/runs/{run}")
    def run(run: str) -> RunBody:
        """Return one run."""
        found = plane.run(RunId(run))
        if found is None:
            raise _ApiError(404, "not_found", f"there is no run {run}")
        return run_body(found, now=clock.now(), waits_for=plane.waiting().get(found.id))


def _add_replicas(app: FastAPI, plane: ControlPlane) -> None:
    @app.get("/v1/replicas")
    def replicas() -> list[ReplicaBody]:
        """Return the daemons on this store, as this one knows them: who lives, and how many tables each attends."""
        return [replica_body(replica) for replica in plane.replicas()]


def _add_pauses(app: FastAPI, plane: ControlPlane) -> None:
    @app.post("/v1/pause", status_code=204)
    async def pause(request: PauseRequest | None = None) -> None:
        """Start nothing more, anywhere."""
        await _awaited(plane.pause(None, reason=(request or PauseRequest()).reason))

    @app.post("/v1/resume", status_code=204)
    async def resume() -> None:
        """End the global pause."""
        await _awaited(plane.resume(None))

    @app.post("/v1/tables/{table}/pause", status_code=204)
    async def pause_table(table: str, request: PauseRequest | None = None) -> None:
        """Start nothing more on a table."""
        await _awaited(plane.pause(_table(plane, table).table.id, reason=(request or PauseRequest()).reason))

    @app.post("/v1/tables/{table}/resume", status_code=204)
    async def resume_table(table: str) -> None:
        """End a table's pause; its services leave quarantine and rest, too."""
        await _awaited(plane.resume(_table(plane, table).table.id))


def _table(plane: ControlPlane, table: str) -> TableStatus:
    status = plane.table(TableId(table))
    if status is None:
        raise _ApiError(404, "not_found", f"no table {table!r} is registered")
    return status


async def _awaited(future: Future[_Answer]) -> _Answer:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout=_ANSWER_SECONDS)
    except TimeoutError:
        raise _ApiError(503, "unavailable", "the control thread is busy: look at /v1/runs in a while") from None
