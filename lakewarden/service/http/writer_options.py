"""`GET /v1/tables/{table}/writer-options`: what a writer of a table must set beside Lakewarden."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import WriterEngine
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.writer_options import WriterOptionsBody, options_of
from lakewarden.service.rules.lock_holds import worst_hold

_RUNS_LOOKED_AT = 1000


def add_writer_options(app: FastAPI, plane: ControlPlane, *, url: str) -> None:
    """Add the route. `url` is the API's address, as writers reach it."""

    @app.get("/v1/tables/{table}/writer-options")
    def writer_options(table: str, engine: WriterEngine = WriterEngine.SPARK) -> WriterOptionsBody:
        """Return exactly what a writer of the table must set; 409 where the table's own settings leave it open."""
        status = plane.table(TableId(table))
        if status is None:
            raise HTTPException(404, f"no table {table!r} is registered")
        runs = plane.runs(table=status.table.id, states=(RunState.SUCCEEDED,), limit=_RUNS_LOOKED_AT)
        return options_of(status.table, engine=engine, url=url, held=worst_hold(runs))
