"""How often hooks have a table looked at: the first one at once, those that follow at most once in an interval."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import TableId

INTERVAL = timedelta(seconds=1)
"""A look costs what has changed, and at least a listing: a sender that repeats itself causes one a second."""

_EARLY_SECONDS = 0.001
"""A timer may run out a moment early."""


@dataclass(slots=True)
class HookRate:
    """Which hooks are looks, and when. Times are monotonic seconds; nothing here waits.

    Every hook is followed by a look that begins after it: the one that it causes, or one that was promised before.
    """

    interval: float
    _looked_at: dict[TableId, float] = field(default_factory=dict)
    _promised: dict[TableId, float] = field(default_factory=dict)

    def heard(self, table: TableId, now: float) -> bool:
        """Whether a hook for a table is a look now. Where it is not, a look is promised."""
        if table in self._promised:
            return False
        last = self._looked_at.get(table)
        if last is None or now - last >= self.interval:
            self._looked_at[table] = now
            return True
        self._promised[table] = last + self.interval
        return False

    def due(self, now: float) -> tuple[TableId, ...]:
        """Return the tables whose promised look is to be now, and forget what no longer matters."""
        due = tuple(table for table, at in self._promised.items() if at <= now + _EARLY_SECONDS)
        for table in due:
            del self._promised[table]
            self._looked_at[table] = now
        for table in [table for table, at in self._looked_at.items() if now - at >= self.interval]:
            del self._looked_at[table]
        return due

    def next_at(self) -> float | None:
        """Return when the next promise is to be kept; None where there is none."""
        return min(self._promised.values(), default=None)


class PacedHooks:
    """Keeps the promises, by a timer that stands only while there are any. Safe in any thread."""

    def __init__(
        self,
        look: Callable[[TableId], None],
        *,
        clock: Clock,
        interval: timedelta = INTERVAL,
        after: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        """`look` has a table looked at. `after` calls back after so many seconds; by default by a thread."""
        self._look = look
        self._clock = clock
        self._rate = HookRate(interval=interval.total_seconds())
        self._after = after or _after
        self._guard = threading.Lock()
        self._timer_stands = False

    def heard(self, tables: Iterable[TableId]) -> None:
        """Have tables looked at for a hook, at once or soon."""
        now = self._clock.monotonic()
        with self._guard:
            at_once = [table for table in tables if self._rate.heard(table, now)]
            self._set_timer(now)
        for table in at_once:
            self._look(table)

    def _set_timer(self, now: float) -> None:
        next_at = self._rate.next_at()
        if next_at is not None and not self._timer_stands:
            self._timer_stands = True
            self._after(max(0.0, next_at - now), self._keep)

    def _keep(self) -> None:
        now = self._clock.monotonic()
        with self._guard:
            due = self._rate.due(now)
            self._timer_stands = False
            self._set_timer(now)
        for table in due:
            self._look(table)


def _after(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
