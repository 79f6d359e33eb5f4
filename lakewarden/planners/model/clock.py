"""The source of time. Nothing else in Lakewarden asks the operating system for the time."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ADJUSTED = timedelta(seconds=5)  # at once: NTP always makes such corrections

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Two clocks that must not be mixed up. One tells the time, and one measures it."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware and in UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps, from an arbitrary start."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> datetime:
        """Return the wall clock's time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since the machine booted. They are the same in all its processes. The time while the
        machine is suspended counts, so a lease ends during that time as well.
        """
        return time.clock_gettime(_SINCE_BOOT)


class CautiousClock:
    """A clock that does not trust its wall clock at once when it jumps forward.

    Heartbeats are times of files. Right after a jump forward every heartbeat looks old, even that of a living writer,
    until it is renewed. So this clock continues as before until the jump has lasted for `doubt`. A jump back counts at
    once, because it makes heartbeats look young. Any thread may use it.
    """

    def __init__(self, clock: Clock, *, doubt: timedelta = timedelta(minutes=3)) -> None:
        self._clock = clock
        self._doubt = doubt.total_seconds()
        self._ahead = self._ahead_now()
        self._jumped_at: float | None = None
        self._telling = threading.Lock()

    def now(self) -> datetime:
        """Return the wall clock's time, without a jump that is still in doubt."""
        with self._telling:
            ahead, monotonic = self._ahead_now(), self._clock.monotonic()
            jump = ahead - self._ahead
            if jump <= _ADJUSTED:
                self._ahead, self._jumped_at = ahead, None
            elif self._jumped_at is None:
                self._jumped_at = monotonic
            elif monotonic - self._jumped_at >= self._doubt:
                self._ahead, self._jumped_at = ahead, None
            return _EPOCH + self._ahead + timedelta(seconds=monotonic)

    def monotonic(self) -> float:
        """Return the seconds of the inner clock."""
        return self._clock.monotonic()

    def _ahead_now(self) -> timedelta:
        """Return by how much the wall clock is ahead of the monotonic clock."""
        return self._clock.now() - _EPOCH - timedelta(seconds=self._clock.monotonic())


class ManualClock:
    """A clock that changes only when a test moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the time that was set."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced."""
        return self._monotonic

    def advance(self, by: timedelta) -> None:
        """Advance both clocks."""
        self._now += by
        self._monotonic += by.total_seconds()

    def jump(self, by: timedelta) -> None:
        """Move the wall clock alone, as NTP or an operator does."""
        self._now += by
