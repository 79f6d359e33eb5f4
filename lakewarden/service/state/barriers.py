"""Barriers: a foreign writer waits for our cleans as our own commits do, and then delays new cleans for a short time.

From the request until the end of the hold no clean of the table starts, and no clean that has started begins to delete.
Everything is bounded. A request waits at most `LONGEST_WAIT`. A hold lasts at most `LONGEST_HOLD`. After holds have
delayed a clean for `HELD_BACK`, the clean goes before any further hold. A clean gives up its own waiting
(`permits.max_wait_to_commit`) later than that.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.access import LOCAL, Caller
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.state.active_runs import ActiveRuns

LONGEST_HOLD = timedelta(minutes=1)
LONGEST_WAIT = timedelta(minutes=5)
HELD_BACK = timedelta(minutes=2)

_ID_BYTES = 8

_EXECUTING = frozenset({RunState.COMMITTING, RunState.UNKNOWN})


@dataclass(frozen=True, kw_only=True, slots=True)
class BarrierGranted:
    """The answer to a writer: no clean is executing, and none will before `until`. `id` ends this hold early."""

    id: str
    waited: timedelta
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class BarrierHold:
    """A hold on the cleans of a table. `owner` is the name of the caller that has it, and the hold ends at `until`."""

    id: str
    owner: str
    until: datetime


@dataclass(frozen=True, kw_only=True)
class BarrierAsked:
    """A writer asks for a time without cleans: it waits at most `wait`, and then delays cleans for `hold`.

    The name of the caller is the owner of the hold. The answer raises TemporaryError if the wait runs out.
    """

    table: TableId
    hold: timedelta
    wait: timedelta
    caller: Caller = LOCAL
    answer: Future[BarrierGranted] = field(default_factory=Future)


@dataclass(slots=True)
class _Barrier:
    """The requests and holds of one table, in monotonic seconds. The holds are by their ids, each with its end."""

    asked: list[tuple[BarrierAsked, float]] = field(default_factory=list)
    holds: dict[str, tuple[BarrierHold, float]] = field(default_factory=dict)
    held_back_since: float | None = None


class Barriers:
    """Keeps the barrier of every table. Only the control thread uses it."""

    def __init__(self, *, active_runs: ActiveRuns, clock: Clock) -> None:
        self._active_runs = active_runs
        self._clock = clock
        self._barriers: dict[TableId, _Barrier] = {}

    def ask(self, request: BarrierAsked) -> None:
        """Take a request. `answer_waiting` answers it."""
        barrier = self._barriers.setdefault(request.table, _Barrier())
        barrier.asked.append((request, self._clock.monotonic()))

    def holds(self, table: TableId) -> tuple[BarrierHold, ...]:
        """Return the holds on the cleans of the table, the first to end first. Any thread may call it."""
        barrier, now = self._barriers.get(table), self._clock.monotonic()
        held = [] if barrier is None else [hold for hold, until in list(barrier.holds.values()) if now < until]
        return tuple(sorted(held, key=lambda hold: (hold.until, hold.id)))

    def lift(self, table: TableId, holds: Collection[str]) -> None:
        """End holds of the table early."""
        if barrier := self._barriers.get(table):
            barrier.holds = {hold: held for hold, held in barrier.holds.items() if hold not in holds}

    def closed(self, table: TableId) -> bool:
        """Whether the cleans of the table have to wait."""
        barrier, now = self._barriers.get(table), self._clock.monotonic()
        return barrier is not None and _wanted(barrier, now) and not _cleans_turn(barrier, now)

    def is_asked(self) -> bool:
        """Whether a writer waits for an answer."""
        return any(barrier.asked for barrier in self._barriers.values())

    def answer_waiting(self) -> None:
        """Answer every request that can be answered now, and forget the barriers that are over."""
        now = self._clock.monotonic()
        for table, barrier in list(self._barriers.items()):
            cleans = [run for run in self._active_runs.of(table).values() if SERVICES[run.service].delays_commits]
            self._note_held_back(barrier, cleans, now)
            barrier.holds = {hold: held for hold, held in barrier.holds.items() if now < held[1]}
            barrier.asked = [pair for pair in barrier.asked if not self._answered(*pair, barrier, cleans, now)]
            # A clean that was delayed is remembered between two holds. Otherwise it would never get its turn.
            if not _wanted(barrier, now) and barrier.held_back_since is None:
                del self._barriers[table]

    def refuse_all(self, reason: str) -> None:
        """Answer every request with TemporaryError and this reason."""
        for barrier in self._barriers.values():
            for request, _ in barrier.asked:
                request.answer.set_exception(TemporaryError(reason))
            barrier.asked.clear()

    def _note_held_back(self, barrier: _Barrier, cleans: list[Run], now: float) -> None:
        if not any(run.state not in _EXECUTING for run in cleans):
            barrier.held_back_since = None
        elif barrier.held_back_since is None:
            barrier.held_back_since = now

    def _answered(self, request: BarrierAsked, at: float, barrier: _Barrier, cleans: list[Run], now: float) -> bool:
        waited = timedelta(seconds=now - at)
        executing = [run for run in cleans if run.state in _EXECUTING]
        in_the_way = executing or (cleans if _cleans_turn(barrier, now) else [])
        if in_the_way and waited < request.wait:
            return False
        if in_the_way:
            names = ", ".join(f"{run.service} {run.id} is {run.state}" for run in in_the_way)
            request.answer.set_exception(TemporaryError(f"{names}: not ended within {request.wait}"))
            return True
        turn = math.inf if barrier.held_back_since is None else barrier.held_back_since + HELD_BACK.total_seconds()
        ends = min(now + request.hold.total_seconds(), turn)
        until = self._clock.now() + timedelta(seconds=ends - now)
        hold = BarrierHold(id=secrets.token_hex(_ID_BYTES), owner=request.caller.name, until=until)
        barrier.holds[hold.id] = (hold, ends)
        request.answer.set_result(BarrierGranted(id=hold.id, waited=waited, until=until))
        return True


def _wanted(barrier: _Barrier, now: float) -> bool:
    return bool(barrier.asked) or any(now < until for _, until in barrier.holds.values())


def _cleans_turn(barrier: _Barrier, now: float) -> bool:
    """Whether the barrier has delayed a clean for so long that the clean goes first."""
    return barrier.held_back_since is not None and now >= barrier.held_back_since + HELD_BACK.total_seconds()
