"""The REST API and the commit hooks."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Annotated, TypeVar

from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, ConfigDict, Field

import lakewarden
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane, TableStatus
from lakewarden.service.http.answers import Answer
from lakewarden.service.http.bodies import BodyLimit
from lakewarden.service.http.browsers import NoStrangersPages
from lakewarden.service.http.deletions import add_deletions
from lakewarden.service.http.errors import ApiError, add_error_handlers
from lakewarden.service.http.explain import add_explain
from lakewarden.service.http.forwarding import forwarding
from lakewarden.service.http.guard.hosts import Hosts
from lakewarden.service.http.hooks import HOOKS, HookHeard, add_hooks
from lakewarden.service.http.schemas import (
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
from lakewarden.service.model.refusals import Refusal, Turned
from lakewarden.service.model.run import RunState

LONGEST_NAME = 1000
"""No table has a longer id, no run either."""

_ANSWER_SECONDS = 30.0

_Answer = TypeVar("_Answer")


class PauseRequest(BaseModel):
    """Why something is paused: people will read it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="paused through the API", max_length=500)


def _nobody_counts(_refusal: Refusal, _sender: str) -> None:
    return


def build_api(
    plane: ControlPlane,
    *,
    clock: Clock,
    hook_heard: HookHeard | None,
    url: str = "http://127.0.0.1:8080",
    hosts: Hosts | None = None,
    turned: Turned = _nobody_counts,
) -> FastAPI:
    """Return the API application over a control plane.

    `url` is where writers send their hooks. Without `hook_heard` it takes no hooks. `turned` is told of each request of
    a stranger's page, by `hosts`.
    """
    app = _application("Lakewarden", hosts, turned)
    app.router.route_class = forwarding(plane)
    if hook_heard is not None:
        add_hooks(app, plane, hook_heard)
    _add_tables(app, plane)
    add_explain(app, plane, clock)
    add_writer_options(app, plane, url=url)
    _add_runs(app, plane, clock)
    _add_pauses(app, plane)
    add_deletions(app, plane)
    _add_replicas(app, plane)
    return app


def build_hooks(plane: ControlPlane, *, hook_heard: HookHeard, turned: Turned = _nobody_counts) -> FastAPI:
    """Return the application of a port that takes hooks, and nothing else."""
    app = _application("Lakewarden hooks", None, turned)
    add_hooks(app, plane, hook_heard)
    return app


def _application(title: str, hosts: Hosts | None, turned: Turned) -> FastAPI:
    # Pages of documentation run scripts of other hosts, which could then send anything from our origin.
    # A redirect would lead to wherever the sender's Host says.
    app = FastAPI(
        title=title,
        version=lakewarden.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Answer,
    )
    app.add_middleware(BodyLimit, hooks=HOOKS)
    app.add_middleware(NoStrangersPages, hosts=hosts or Hosts(), hooks=HOOKS, turned=turned)
    add_error_handlers(app)
    return app


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
            raise ApiError(404, "not_found", f"table {table} has no policy for {service!r}; it has: {able}")
        answer = await _awaited(plane.request_run(status.table.id, policy, by="api"))
        if isinstance(answer, Blocked | NotDue):
            remedy = answer.remedy if isinstance(answer, Blocked) else None
            raise ApiError(409, "blocked", answer.reason, remedy)
        response.status_code = 202 if answer.new else 200
        return run_body(answer.run, now=clock.now())

    @app.get("/v1/runs")
    def runs(
        table: Annotated[str | None, Query(max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]*$")] = None,
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
            raise ApiError(404, "not_found", f"there is no run {run}")
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
        raise ApiError(404, "not_found", f"no table {table!r} is registered")
    return status


async def _awaited(future: Future[_Answer]) -> _Answer:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout=_ANSWER_SECONDS)
    except TimeoutError:
        raise ApiError(503, "unavailable", "the control thread is busy: look at /v1/runs in a while") from None
