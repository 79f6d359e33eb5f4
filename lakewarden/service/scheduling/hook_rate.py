"""How often hooks cause an observation of a table: the first hook at once, further hooks at most once in an
interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import TableId

INTERVAL = timedelta(seconds=1)
"""The shortest time between two observations caused by hooks. Each of them costs at least a listing."""

_EARLY_SECONDS = 0.001
"""A timer may run out a moment early."""


@dataclass(slots=True)
class HookRate:
    """Decides which hooks cause an observation, and when. Times are monotonic seconds. Nothing here waits.

    After every hook an observation begins: the one that the hook causes, or one that was scheduled before.
    """

    interval: float
    _looked_at: dict[TableId, float] = field(default_factory=dict)
    _promised: dict[TableId, float] = field(default_factory=dict)

    def heard(self, table: TableId, now: float) -> bool:
        """Return whether a hook for a table causes an observation now. If not, an observation is scheduled."""
        if table in self._promised:
            return False
        last = self._looked_at.get(table)
        if last is None or now - last >= self.interval:
            self._looked_at[table] = now
            return True
        self._promised[table] = last + self.interval
        return False

    def due(self, now: float) -> tuple[TableId, ...]:
        """Return the tables with a scheduled observation that is due, and forget what no longer matters."""
        due = tuple(table for table, at in self._promised.items() if at <= now + _EARLY_SECONDS)
        for table in due:
            del self._promised[table]
            self._looked_at[table] = now
        for table in [table for table, at in self._looked_at.items() if now - at >= self.interval]:
            del self._looked_at[table]
        return due

    def next_at(self) -> float | None:
        """Return when the next scheduled observation is due, or None."""
        return min(self._promised.values(), default=None)


class PacedHooks:
    """Starts the scheduled observations, by a timer that exists only while there are any. Safe in any thread."""

    def __init__(
        self,
        look: Callable[[TableId], None],
        *,
        clock: Clock,
        interval: timedelta = INTERVAL,
        after: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        """`request` asks for the observation of a table. `after` calls back after so many seconds, by default in a
        thread.
        """
        self._look = look
        self._clock = clock
        self._rate = HookRate(interval=interval.total_seconds())
        self._after = after or _after
        self._guard = threading.Lock()
        self._timer_stands = False

    def heard(self, tables: Iterable[TableId]) -> None:
        """Have tables observed for a hook, at once or soon."""
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
