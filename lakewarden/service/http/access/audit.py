"""`GET /v1/audit`: who did what, and what it changed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel

from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, link_to_next
from lakewarden.service.model.access import Role
from lakewarden.service.model.acts import ActKind


class ActBody(BaseModel):
    """One act of a person or a program.

    `key` is the id of the API key, or the place of its secret. It is null if no key was asked for. `before` and `after`
    are what the act changed. `number` rises with each act.
    """

    number: int
    at: datetime
    who: str
    key: str | None
    kind: ActKind
    table: str | None
    service: str | None
    before: str | None
    after: str | None


class ActPage(Page[ActBody]):
    """One page of acts."""


def add_audit(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get("/v1/audit", responses={**PAGED, **errors(422, 503)}, openapi_extra=needs(Role.ADMIN, whole=True))
    def audit(
        *,
        request: Request,
        response: Response,
        table: Name = None,
        after: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
        limit: Limit = 100,
    ) -> ActPage:
        """Return the acts of persons and programs, the newest first.

        `after` is the number of the act after which the page begins. The acts of the page are older.
        """
        acts = plane.acts(table=None if table is None else TableId(table), before=after, limit=limit + 1)
        cursor = str(acts[limit - 1].number) if len(acts) > limit else None
        link_to_next(request, response, cursor)
        return ActPage(items=[ActBody.model_validate(act, from_attributes=True) for act in acts[:limit]], next=cursor)
