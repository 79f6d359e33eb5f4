"""Barriers: a foreign writer waits for our cleans as our own commits do, and holds new ones back for a moment.

From its request until its hold has run out no clean of the table starts, and none that has started begins to delete.
Everything is bounded: a request waits at most `LONGEST_WAIT`, a hold lasts at most `LONGEST_HOLD`, and however
many holds follow each other, a clean that they have kept waiting for `HELD_BACK` goes before any further one.
A clean gives up its own waiting (`permits.commit_patience`) later than that.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.state.active_runs import ActiveRuns

LONGEST_HOLD = timedelta(minutes=1)
LONGEST_WAIT = timedelta(minutes=5)
HELD_BACK = timedelta(minutes=2)

_EXECUTING = frozenset({RunState.COMMITTING, RunState.UNKNOWN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """No clean is executing, and none will before `until`."""

    waited: timedelta
    until: datetime


@dataclass(frozen=True, kw_only=True)
class BarrierAsked:
    """A writer asks for a moment without cleans: `wait` for at most so long, then `hold` cleans back for so long.

    The answer raises TemporaryError where the wait ran out.
    """

    table: TableId
    hold: timedelta
    wait: timedelta
    answer: Future[Held] = field(default_factory=Future)


@dataclass(slots=True)
class _Barrier:
    """What is going on at one table, in monotonic seconds."""

    asked: list[tuple[BarrierAsked, float]] = field(default_factory=list)
    until: float = -math.inf
    held_back_since: float | None = None


class Barriers:
    """Keeps every table's barrier. Only the control thread touches it."""

    def __init__(self, *, book: ActiveRuns, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        self._barriers: dict[TableId, _Barrier] = {}

    def ask(self, asked: BarrierAsked) -> None:
        """Take a request; `attend` answers it."""
        barrier = self._barriers.setdefault(asked.table, _Barrier())
        barrier.asked.append((asked, self._clock.monotonic()))

    def lift(self, table: TableId) -> None:
        """End the table's holds before their time."""
        if barrier := self._barriers.get(table):
            barrier.until = -math.inf

    def closed(self, table: TableId) -> bool:
        """Whether the table's cleans have to wait."""
        barrier, now = self._barriers.get(table), self._clock.monotonic()
        return barrier is not None and _wanted(barrier, now) and not _cleans_turn(barrier, now)

    def is_asked(self) -> bool:
        """Whether a writer is waiting for an answer."""
        return any(barrier.asked for barrier in self._barriers.values())

    def attend(self) -> None:
        """Answer every request whose time has come, and forget the barriers that are over."""
        now = self._clock.monotonic()
        for table, barrier in list(self._barriers.items()):
            cleans = [run for run in self._book.of(table).values() if SERVICES[run.service].barrier]
            self._note_held_back(barrier, cleans, now)
            barrier.asked = [pair for pair in barrier.asked if not self._answered(*pair, barrier, cleans, now)]
            # A clean that was held back is not forgotten between two holds: it would never get its turn.
            if not _wanted(barrier, now) and barrier.held_back_since is None:
                del self._barriers[table]

    def refuse_all(self, reason: str) -> None:
        """Answer everybody that there will be no barrier."""
        for barrier in self._barriers.values():
            for asked, _ in barrier.asked:
                asked.answer.set_exception(TemporaryError(reason))
            barrier.asked.clear()

    def _note_held_back(self, barrier: _Barrier, cleans: list[Run], now: float) -> None:
        if not any(run.state not in _EXECUTING for run in cleans):
            barrier.held_back_since = None
        elif barrier.held_back_since is None:
            barrier.held_back_since = now

    def _answered(self, asked: BarrierAsked, at: float, barrier: _Barrier, cleans: list[Run], now: float) -> bool:
        waited = timedelta(seconds=now - at)
        executing = [run for run in cleans if run.state in _EXECUTING]
        in_the_way = executing or (cleans if _cleans_turn(barrier, now) else [])
        if in_the_way and waited < asked.wait:
            return False
        if in_the_way:
            names = ", ".join(f"{run.service} {run.id} is {run.state}" for run in in_the_way)
            asked.answer.set_exception(TemporaryError(f"{names}: not ended within {asked.wait}"))
            return True
        turn = math.inf if barrier.held_back_since is None else barrier.held_back_since + HELD_BACK.total_seconds()
        barrier.until = max(barrier.until, min(now + asked.hold.total_seconds(), turn))
        left = timedelta(seconds=barrier.until - now)
        asked.answer.set_result(Held(waited=waited, until=self._clock.now() + left))
        return True


def _wanted(barrier: _Barrier, now: float) -> bool:
    return bool(barrier.asked) or now < barrier.until


def _cleans_turn(barrier: _Barrier, now: float) -> bool:
    """Whether the barrier has kept a clean waiting for so long that it goes first."""
    return barrier.held_back_since is not None and now >= barrier.held_back_since + HELD_BACK.total_seconds()
