"""`/v1/tables/{table}`: one table."""

from __future__ import annotations

from fastapi import FastAPI

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.registered import registered
from lakewarden.service.http.schemas import PendingBody, TableBody, pending_body, table_body
from lakewarden.service.model.access import Role

_VIEWER = needs(Role.VIEWER)


def add_tables(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.get("/v1/tables/{table}", responses=errors(404, 503), openapi_extra=_VIEWER)
    def table(table: str) -> TableBody:
        """Return one table with its health, its decisions and their reasons."""
        found = registered(plane, table)
        return table_body(found, polled_ago=plane.polled_ago(found.table.id))

    @app.get("/v1/tables/{table}/pending", responses=errors(404, 503), openapi_extra=_VIEWER)
    def pending(table: str) -> PendingBody:
        """Return the table's pending instants."""
        return pending_body(registered(plane, table))
