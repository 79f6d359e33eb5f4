"""`GET /v1/tables/{table}/writer-options`: the options that a writer of a table must set beside Lakewarden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException

from lakewarden.planners.ports import SPARK, TableFormat
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.registered import registered
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.writer_options import WriterOptionsBody, engine_of, options_of
from lakewarden.service.rules.lock_holds import worst_hold

_RUNS_LOOKED_AT = 1000


def add_writer_options(
    app: FastAPI, plane: ControlPlane, *, url: str, formats: Mapping[str, TableFormat], with_keys: bool = False
) -> None:
    """Add the route. `url` is the address of the API, as writers reach it. `with_keys`: hooks need an API key."""
    engines = list(dict.fromkeys(engine.name for one in formats.values() for engine in one.writer_engines))

    known: Any = Query(default=SPARK.name, json_schema_extra={"enum": [*engines]})

    @app.get(
        "/v1/tables/{table}/writer-options", responses=errors(404, 409, 422, 503), openapi_extra=needs(Role.VIEWER)
    )
    def writer_options(table: str, engine: str = known) -> WriterOptionsBody:
        """Return the options that a writer of the table must set. 409 if the settings of the table leave one open."""
        status = registered(plane, table)
        if engine not in engines:
            raise HTTPException(422, f"{engine!r} is no engine: it is one of {', '.join(engines)}")
        table_format = formats[status.table.format]
        runs = plane.runs(table=status.table.id, states=(RunState.SUCCEEDED,), limit=_RUNS_LOOKED_AT)
        writer = engine_of(status.table, table_format, engine)
        return options_of(status.table, table_format, engine=writer, url=url, held=worst_hold(runs), with_key=with_keys)
