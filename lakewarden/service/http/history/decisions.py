"""`GET /v1/tables/{table}/decisions`: what was decided on a table, by page."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from lakewarden.planners.model.instant import Service
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.pages import PAGED, Limit, Page, link_to_next
from lakewarden.service.http.registered import registered
from lakewarden.service.model.access import Role
from lakewarden.service.model.history import DecisionChange
from lakewarden.service.reporting.explain.past import PastDecision, past_decision


class DecisionChangeBody(PastDecision):
    """A decision on one service, from `since` to `until` (null: it still holds)."""

    service: Service


class DecisionPage(Page[DecisionChangeBody]):
    """One page of decisions."""


def add_decisions(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get(
        "/v1/tables/{table}/decisions",
        responses={**PAGED, **errors(404, 422, 503)},
        openapi_extra=needs(Role.VIEWER),
    )
    def decisions(
        *,
        table: str,
        request: Request,
        response: Response,
        service: Service | None = None,
        after: Annotated[int | None, Query(ge=1, le=2**53)] = None,
        limit: Limit = 100,
    ) -> DecisionPage:
        """Return the decisions on a table, the newest first, as far as the store has kept them.

        A decision begins when its kind, its remedy or its reason changes. Other numbers in a reason are no change.
        """
        of = registered(plane, table).table.id
        found = plane.history().decision_changes(of, service=service, before=after, limit=limit + 1)
        cursor = str(found[limit - 1].number) if len(found) > limit else None
        link_to_next(request, response, cursor)
        return DecisionPage(items=[_body(one) for one in found[:limit]], next=cursor)


def _body(change: DecisionChange) -> DecisionChangeBody:
    return DecisionChangeBody(service=change.decision.service, **past_decision(change).model_dump())
