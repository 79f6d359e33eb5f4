"""Events as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from lakewarden.service.events.feed import ChangeKind, FeedChange
from lakewarden.service.http.live.runs import LiveRuns
from lakewarden.service.http.schemas import DecisionBody, RunBody, decision_body


class EventBody(BaseModel):
    """One change. Only the fields of its kind have values.

    `run` is the run as it is now, or as it ended. `decision` is the decision on `service`. `what` is the name of an
    event of the table, such as `poll_failed`, and `detail` says it in words. `id` is for `after` and `Last-Event-ID`.
    """

    id: str
    kind: ChangeKind
    at: datetime
    table: str
    service: str | None = None
    run: RunBody | None = None
    decision: DecisionBody | None = None
    what: str | None = None
    detail: str | None = None


def event_bodies(changes: Sequence[FeedChange], *, life: str, live: LiveRuns) -> list[EventBody]:
    """Return changes as JSON. Raises TemporaryError if the store does not answer."""
    runs = iter(live.bodies([change.run for change in changes if change.run is not None]))
    return [
        EventBody(
            id=f"{life}-{change.number}",
            kind=change.kind,
            at=change.at,
            table=change.table,
            service=change.run.service if change.run is not None else change.service,
            run=next(runs) if change.run is not None else None,
            decision=None if change.decision is None else decision_body(change.decision),
            what=change.what,
            detail=change.detail,
        )
        for change in changes
    ]
