"""`GET /v1/tables/{table}/explain`: why the services of a table run or do not."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.explain import TableExplanation, explain

_ENDED = tuple(state for state in RunState if state.ended)


def add_explain(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the route."""

    @app.get("/v1/tables/{table}/explain")
    def explain_table(table: str) -> TableExplanation:
        """Explain a table: what holds it back, what its writers do, and for each service what was decided and why."""
        status = plane.table(TableId(table))
        if status is None:
            raise HTTPException(404, f"no table {table!r} is registered")
        return explain(
            status,
            decided=plane.decided(status.table.id),
            last_runs={
                service: run
                for service in status.table.policies
                if (run := _last_run(plane, status.table.id, service)) is not None
            },
            waiting=plane.waiting(),
            now=clock.now(),
        )


def _last_run(plane: ControlPlane, table: TableId, service: Service) -> Run | None:
    return next(iter(plane.runs(table=table, service=service, states=_ENDED, limit=1)), None)
