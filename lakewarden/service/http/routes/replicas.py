"""`GET /v1/replicas`: the daemons on the store."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.query.pages import Page
from lakewarden.service.model.access import Role


class ReplicaBody(BaseModel):
    """A daemon on the store. `here` is the one that answers."""

    id: str
    url: str
    alive: bool
    here: bool
    tables: int


class ReplicaPage(Page[ReplicaBody]):
    """The replicas. There is one page."""


def add_replicas(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get("/v1/replicas", openapi_extra=needs(Role.VIEWER))
    def replicas() -> ReplicaPage:
        """Return the replicas on this store, as this replica knows them, each with the number of its tables."""
        return ReplicaPage(
            items=[ReplicaBody.model_validate(replica, from_attributes=True) for replica in plane.replicas()]
        )
