"""`GET /v1/tables/{table}/timeline`: the instants of a table, by page."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel

from lakewarden.planners.model.instant import Instant
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, link_to_next
from lakewarden.service.http.reach import registered
from lakewarden.service.model.access import Role


class EntryBody(BaseModel):
    """One instant of a timeline. `stands_for` is the service, or `write`, `savepoint`, `restore` or `other`.

    `run` is the run of ours that planned it. `guarded_until` is when the heartbeat of its executor runs out. `bytes`
    and `file_groups` are the size of a pending plan.
    """

    time: str
    action: str
    stands_for: str
    state: str
    requested_at: datetime
    completed_at: datetime | None
    run: str | None
    guarded_until: datetime | None
    file_groups: int | None
    bytes: int | None


class EntryPage(Page[EntryBody]):
    """One page of a timeline."""


def add_timeline(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get(
        "/v1/tables/{table}/timeline",
        responses={**PAGED, **errors(404, 422, 503)},
        openapi_extra=needs(Role.VIEWER),
    )
    def timeline(
        *,
        table: str,
        request: Request,
        response: Response,
        action: Name = None,
        pending: bool | None = None,
        ours: bool | None = None,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        limit: Limit = 100,
    ) -> EntryPage:
        """Return the active instants of a table, the newest first, as they were last observed.

        `action` is the action of the format, such as `deltacommit`. `pending`: the instant is not completed. `ours`: a
        run of ours planned it.
        """
        view = registered(plane, table).view
        instants = sorted(view.timeline.instants, key=_place, reverse=True) if view else []
        entries = [
            instant
            for instant in instants
            if action in (None, instant.action)
            and pending in (None, instant.pending)
            and ours in (None, instant.author is not None)
        ]
        # Instants that are requested at one moment stay together, so a page may have more than `limit` of them.
        rest = [entry for entry in entries if after is None or _moment(entry) < after]
        rows = rest[:limit]
        rows += [entry for entry in rest[limit:] if _moment(entry) == _moment(rows[-1])]
        cursor = str(_moment(rows[-1])) if len(rest) > len(rows) else None
        link_to_next(request, response, cursor)
        return EntryPage(items=[_body(entry) for entry in rows], next=cursor)


def _moment(instant: Instant) -> int:
    return round(instant.requested_at.timestamp() * 1_000_000)


def _place(instant: Instant) -> tuple[int, str, str]:
    return _moment(instant), instant.time, instant.action


def _body(instant: Instant) -> EntryBody:
    return EntryBody(
        time=instant.time,
        action=instant.action,
        stands_for=instant.stands_for,
        state=instant.state.name,
        requested_at=instant.requested_at,
        completed_at=instant.completed_at,
        run=instant.author,
        guarded_until=instant.guarded_until,
        file_groups=instant.plan.file_groups if instant.plan else None,
        bytes=instant.plan.bytes if instant.plan else None,
    )
