"""`GET /v1/tables/{table}/timeline`: the instants of a table, by page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel

from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import NoArchiveError
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, link_to_next
from lakewarden.service.http.registered import registered
from lakewarden.service.model.access import Role

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EntryBody(BaseModel):
    """One instant of a timeline. `stands_for` is the service, or `write`, `savepoint`, `restore` or `other`.

    `run` is the run of ours that planned it. `bytes` and `file_groups` are the size of a pending plan.
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
        responses={**PAGED, **errors(404, 409, 422, 503)},
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
        archived: bool = False,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        limit: Limit = 100,
    ) -> EntryPage:
        """Return the active instants of a table, the newest first, as they were last observed.

        `action` is the action of the format, such as `deltacommit`. `pending`: the instant is not completed. `ours`: a
        run of ours planned it.

        `archived`: return the instants that an archive has taken off the timeline instead. The table is read for each
        page. All of them are completed, and `run` is null: `pending` and `ours` are refused. A page may have few items,
        or none, although there is a `next`. Lakewarden reads the archives of Hudi's table versions 8 and 9. A table
        with an archive of another form, or of a format without archives, is answered with 409.
        """
        status = registered(plane, table)
        if archived:
            if pending is not None or ours is not None:
                raise ApiError(409, "not_supported", "query.archived: it takes neither pending nor ours")
            page = _archived(plane, status.table, action=action, after=after, limit=limit)
            link_to_next(request, response, page.next)
            return page
        view = status.view
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


def _archived(plane: ControlPlane, table: Table, *, action: str | None, after: int | None, limit: int) -> EntryPage:
    """Return a page of the archived timeline. Raises ApiError (409) if the table has no archive that can be read."""
    before = None if after is None else _EPOCH + timedelta(microseconds=after)
    try:
        page = plane.archives.page(table, before=before, limit=limit)
    except NoArchiveError as without:
        raise ApiError(409, "not_supported", str(without), "ask for the active timeline, without archived") from None
    items = [_body(instant) for instant in page.instants if action in (None, instant.action)]
    return EntryPage(items=items, next=None if page.before is None else str(_micros(page.before)))


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _moment(instant: Instant) -> int:
    return _micros(instant.requested_at)


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
