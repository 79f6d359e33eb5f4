"""Values of the model with everything filled in, so that a test names only what it is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Timeline
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableIdentity, TableView, WriterActivity
from lakewarden.service.model.run import Run, RunState

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
IDENTITY = TableIdentity(location="/lake/trips", created="once")

_INSTANT = Instant(
    time="00000010",
    action="commit",
    stands_for=InstantKind.WRITE,
    state=State.COMPLETED,
    requested_at=NOW - timedelta(hours=1),
)
_RUN = Run(
    id=RunId("r1"),
    table=TableId("trips"),
    identity=str(IDENTITY),
    service=Service.COMPACTION,
    state=RunState.QUEUED,
    reason="5 of 5 commits",
    requested_by="policy",
    created_at=NOW,
)
_VIEW = TableView(
    identity=IDENTITY,
    name="trips",
    kind="MERGE_ON_READ",
    version="9",
    observed_at=NOW,
    timeline=Timeline(instants=()),
    writers=WriterActivity(),
)


def an_instant(**news: Any) -> Instant:
    """Return a completed write, changed by `news`."""
    return replace(_INSTANT, **news)


def a_run(run: str = "r1", **news: Any) -> Run:
    """Return a queued compaction run, changed by `news`."""
    return replace(_RUN, id=RunId(run), **news)


def a_view(*instants: Instant, **news: Any) -> TableView:
    """Return the view of a table with these instants and without backlogs, changed by `news`."""
    timeline = Timeline(instants=instants)
    return replace(
        _VIEW, **{"timeline": timeline, "writers": WriterActivity(in_flight=timeline.writes_in_flight()), **news}
    )
