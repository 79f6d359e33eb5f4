"""`GET /v1/events`: the changes of tables and runs, as a stream or as a list."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.events.feed import ChangeKind, Feed, FeedChange
from lakewarden.service.http.access.callers import identified_again
from lakewarden.service.http.access.clients import client_of
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.live.bodies import EventBody, event_bodies
from lakewarden.service.http.live.runs import LiveRuns
from lakewarden.service.http.live.streams import Follower, Streams
from lakewarden.service.http.query.pages import Limit, Name
from lakewarden.service.model.access import Caller, Role

STREAM = "text/event-stream"
_ID = re.compile(r"([0-9a-f]{12})-([0-9]{1,15})")
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The kept events, or with `Accept: text/event-stream` a stream of the events to come.",
        "content": {STREAM: {"schema": {"type": "string"}}},
    }
}


class EventPage(BaseModel):
    """Kept events, the oldest first. `newest` is the id of the newest event: send it as `after` to get later ones.

    `complete` is false if events between `after` and these are not kept any more, or if `after` is of another daemon.
    """

    items: list[EventBody]
    next: str | None
    newest: str
    complete: bool


def add_events(app: FastAPI, plane: ControlPlane, live: LiveRuns) -> None:
    """Add the route."""
    feed = plane.changes()
    streams = Streams(plane, feed, live)

    @app.get(
        "/v1/events",
        response_model=EventPage,
        responses={**_ANSWERS, **errors(422, 503)},
        openapi_extra=needs(Role.VIEWER),
    )
    async def events(
        *,
        request: Request,
        table: Name = None,
        run: Name = None,
        kind: Annotated[list[ChangeKind] | None, Query()] = None,
        after: Name = None,
        limit: Limit = 100,
        last_event_id: Annotated[str | None, Header(max_length=1000)] = None,
    ) -> StreamingResponse | EventPage:
        """Return the changes of the tables that this replica owns, and of their runs.

        With `Accept: text/event-stream` the answer is a stream of server-sent events (`run`, `decision` and `table`)
        that goes on after `Last-Event-ID`. `reset` says that events are missing, and `end` why the stream ends.
        Otherwise the answer is a list of kept events. `table` is a pattern for the id of the table, with `*` and `?`.
        """
        caller = caller_of(request)

        def admits(change: FeedChange) -> bool:
            return (
                caller.reaches(change.table)
                and (table is None or fnmatchcase(change.table, table))
                and (run is None or (change.run is not None and change.run.id == run))
                and (not kind or change.kind in kind)
            )

        known = _number(feed, after or last_event_id)
        lost = known is None or feed.after(known) is None
        begins = bool(after or last_event_id)
        if STREAM not in request.headers.get("accept", ""):
            from_ = 0 if not begins or known is None or lost else known
            return await _listed(feed, live, admits, after=from_, limit=limit, complete=not (begins and lost))
        if (full := streams.full(client_of(request.scope))) is not None:
            raise ApiError(503, "unavailable", full, "close another stream, or ask for the list of events")
        follower = Follower(
            admits=admits,
            may_stay=_staying(request, caller),
            after=known if begins and not lost else None,
            lost=begins and lost,
        )
        return StreamingResponse(
            streams.follow(client_of(request.scope), follower),
            media_type=STREAM,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


async def _listed(
    feed: Feed, live: LiveRuns, admits: Callable[[FeedChange], bool], *, after: int, limit: int, complete: bool
) -> EventPage:
    changes = feed.after(after)
    if changes is None:
        changes = feed.kept()
    newest = changes[-1].number if changes else feed.newest
    found = [change for change in changes if admits(change)]
    shown = found[:limit]
    bodies = await run_in_threadpool(event_bodies, shown, life=feed.life, live=live)
    more = len(found) > limit
    last = shown[-1].number if more else newest
    return EventPage(
        items=bodies, next=f"{feed.life}-{last}" if more else None, newest=f"{feed.life}-{newest}", complete=complete
    )


def _number(feed: Feed, event: str | None) -> int | None:
    """Return the number of an event of this daemon. 0 without one, None if it is of another daemon."""
    if event is None:
        return 0
    found = _ID.fullmatch(event)
    return int(found.group(2)) if found is not None and found.group(1) == feed.life else None


def _staying(request: Request, caller: Caller) -> Callable[[], Awaitable[str | None]]:
    """Return what says why a client must go: its key counts no more, or has another role or other tables."""

    async def may_stay() -> str | None:
        now = await identified_again(request.scope)
        return None if now == caller else "the key of the client counts no more, or its rights have changed"

    return may_stay
