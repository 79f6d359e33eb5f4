"""The bars of a timeline's picture: what happened to a table from when to when, in lanes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakewarden.planners.model.instant import Instant, InstantKind, Service, State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.service.model.run import Run, RunState


class Hand(StrEnum):
    """Who made a bar: a writer, a run of this daemon's store, or another program that runs table services."""

    WRITER = "writer"
    OURS = "ours"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One instant, or one run. `ended_at` is None if it has not ended.

    A `waiting` bar is the time of a run in the queue. `failed`: the run failed. `run` is the id of the run behind it.
    """

    lane: str
    begun_at: datetime
    ended_at: datetime | None
    hand: Hand
    about: str
    failed: bool = False
    waiting: bool = False
    run: str | None = None


WRITES = "writes"
_LANES = (WRITES, *(service.value for service in Service), "savepoints", "restores", "other")
_OF_DEED: Mapping[InstantKind, str] = {
    InstantKind.WRITE: WRITES,
    InstantKind.SAVEPOINT: "savepoints",
    InstantKind.RESTORE: "restores",
    InstantKind.OTHER: "other",
}
_OF_RUNS = "runs: "


def bars(timeline: Timeline, runs: Iterable[Run]) -> Sequence[Bar]:
    """Return the bars of the instants of a table, and those of the runs that `runs` has of it."""
    known = list(runs)
    by_instant = {run.instant: run for run in known if run.instant is not None}
    found = [_of_instant(instant, by_instant.get(instant.time)) for instant in timeline.instants]
    return [*found, *(bar for run in known for bar in _of_run(run))]


def lanes(found: Iterable[Bar]) -> Sequence[str]:
    """Return the lanes of these bars: first the writes, then the services, then the runs."""
    present = {bar.lane for bar in found}
    order = [*_LANES, *(_OF_RUNS + service.value for service in Service)]
    return [lane for lane in order if lane in present]


def _of_instant(instant: Instant, run: Run | None) -> Bar:
    what = instant.stands_for
    ours = instant.author is not None or run is not None
    state = "" if instant.state is State.COMPLETED else f", {instant.state.name.lower()}"
    return Bar(
        lane=_OF_DEED[what] if isinstance(what, InstantKind) else what.value,
        begun_at=instant.requested_at,
        ended_at=instant.completed_at if not instant.pending else None,
        hand=Hand.WRITER if isinstance(what, InstantKind) else Hand.OURS if ours else Hand.OTHER,
        about=f"{instant.action} {instant.time}{state}",
        run=instant.author or (run.id if run else None),
    )


def _of_run(run: Run) -> Iterator[Bar]:
    lane = _OF_RUNS + run.service.value
    started = run.started_at or run.ended_at
    yield Bar(
        lane=lane,
        begun_at=run.created_at,
        ended_at=started,
        hand=Hand.OURS,
        about=f"{run.service} waited in the queue",
        waiting=True,
        run=run.id,
    )
    if run.started_at is not None:
        yield Bar(
            lane=lane,
            begun_at=run.started_at,
            ended_at=run.ended_at,
            hand=Hand.OURS,
            about=f"{run.service}: {run.state}" + (f", {run.outcome}" if run.outcome else ""),
            failed=run.state is RunState.FAILED,
            run=run.id,
        )
