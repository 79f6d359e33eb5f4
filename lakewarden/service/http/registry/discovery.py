"""`/v1/discovery`: what was found by patterns of paths and in catalogs, and what was refused."""

from __future__ import annotations

from datetime import datetime

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, cut, link_to_next
from lakewarden.service.model.access import Role
from lakewarden.service.model.found import SourceStatus

_MOST = 1000
"""So many refusals of one source are shown."""


class RefusedTableBody(BaseModel):
    """A table, or a namespace, and why it is not served."""

    name: str
    reason: str


class SourceBody(BaseModel):
    """A catalog, or a pattern of paths, as the daemon that answers has last listed it.

    `tables` is how many tables it found, and `ids` the first 1000 of them. `refused` are the tables that are not
    served, and `unlisted` the namespaces that could not be listed: at most 1000 of each. `failure` is why the last
    listing failed. What was found before it stays in force.
    """

    name: str
    every_seconds: float
    listing: bool
    asked_at: datetime | None
    answered_at: datetime | None
    failure: str | None
    tables: int
    ids: list[str]
    refused_tables: int
    refused: list[RefusedTableBody]
    unlisted: list[RefusedTableBody]


class SourcePage(Page[SourceBody]):
    """One page of sources."""


class ListingBody(BaseModel):
    """How many sources are listed now."""

    sources: int


def add_discovery(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.get("/v1/discovery", responses={**PAGED, **errors(422)}, openapi_extra=needs(Role.VIEWER, whole=True))
    def discovery(*, request: Request, response: Response, after: Name = None, limit: Limit = 100) -> SourcePage:
        """Return the catalogs and the patterns of paths that tables are found by, by their names.

        Each replica lists them for itself.
        """
        shown, cursor = cut(plane.discovery.sources(), by=lambda one: one.name, after=after, limit=limit)
        link_to_next(request, response, cursor)
        return SourcePage(items=[_body(one) for one in shown], next=cursor)

    @app.post("/v1/discovery/list", status_code=202, openapi_extra=needs(Role.OPERATOR, whole=True))
    def discover_now() -> ListingBody:
        """List every catalog and every pattern of paths now. `GET /v1/discovery` shows the answers."""
        plane.discovery.list_again()
        return ListingBody(sources=len(plane.discovery.sources()))


def _body(source: SourceStatus) -> SourceBody:
    return SourceBody(
        name=source.name,
        every_seconds=source.every.total_seconds(),
        listing=source.listing,
        asked_at=source.asked_at,
        answered_at=source.answered_at,
        failure=source.failure,
        tables=len(source.tables),
        ids=list(source.tables[:_MOST]),
        refused_tables=len(source.refused),
        refused=[RefusedTableBody(name=name, reason=why) for name, why in [*source.refused.items()][:_MOST]],
        unlisted=[RefusedTableBody(name=name, reason=why) for name, why in [*source.unlisted.items()][:_MOST]],
    )
