"""Time comes in from outside: nothing else in Lakewarden asks the operating system for it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Two clocks that must not be mixed up: one to tell the time, one to measure it."""

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
        """Return the machine's seconds since it booted, the same in all its processes, suspended time included: a
        lease goes on running while a machine sleeps.
        """
        return time.clock_gettime(_SINCE_BOOT)


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds it was advanced by since it was made."""
        return self._monotonic

    def advance(self, by: timedelta) -> None:
        """Let `by` pass on both clocks."""
        self._now += by
        self._monotonic += by.total_seconds()

    def jump(self, by: timedelta) -> None:
        """Move the wall clock alone, as NTP or an operator does."""
        self._now += by
