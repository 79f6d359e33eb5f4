"""`GET /v1/replicas`: the daemons on the store."""

from __future__ import annotations

from fastapi import FastAPI

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.query.pages import Page
from lakewarden.service.http.schemas import ReplicaBody, replica_body
from lakewarden.service.model.access import Role


class ReplicaPage(Page[ReplicaBody]):
    """The replicas. There is one page."""


def add_replicas(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get("/v1/replicas", openapi_extra=needs(Role.VIEWER))
    def replicas() -> ReplicaPage:
        """Return the replicas on this store, as this replica knows them, each with the number of its tables."""
        return ReplicaPage(items=[replica_body(replica) for replica in plane.replicas()])
