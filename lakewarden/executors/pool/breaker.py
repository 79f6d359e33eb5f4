"""The circuit breaker of one profile: after several workers in a row that could not work, runs are held back.

A worker is up as soon as its session is. Whether its cluster gives it executors is known only when a run has waited for
them in vain. Without the breaker each run of each table would wait for that, one after another. These are only rules,
as in `supervision`. The pool calls them under its lock.
"""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.settings import format_duration


class ProfileBreaker:
    """What is known of the workers of one profile. Times are seconds of one monotonic clock, given by the caller.

    closed     runs start
    open       no run starts, until a pause is over
    half open  one run starts at a time: a success closes it, a failure opens it for twice as long
    """

    FIRST = timedelta(minutes=1)
    LONGEST = timedelta(minutes=30)

    def __init__(self, *, opens_after: int) -> None:
        """Open after so many failures in a row."""
        self._opens_after = opens_after
        self._failures = 0
        self._reason = ""
        self._until = 0.0

    def failed(self, reason: str, now: float) -> timedelta | None:
        """Note that a worker could not work. Return for how long no run starts now, or None if runs go on."""
        self._failures += 1
        self._reason = reason
        if self._failures < self._opens_after:
            return None
        pause = min(self.FIRST * (1 << min(self._failures - self._opens_after, 10)), self.LONGEST)
        self._until = now + pause.total_seconds()
        return pause

    def succeeded(self) -> bool:
        """Note that a run has succeeded. Return whether that closes the breaker."""
        closes = self._is_tripped
        self._failures = 0
        return closes

    def runs_at_once(self, now: float) -> int | None:
        """Return how many runs may be in the workers at a time. None if the breaker sets no limit."""
        if not self._is_tripped:
            return None
        return 0 if now < self._until else 1

    def holds(self, now: float) -> str | None:
        """Return why runs are held back, or None."""
        if not self._is_tripped:
            return None
        left = timedelta(seconds=round(self._until - now))
        when = f"in {format_duration(left)} one is tried" if left > timedelta(0) else "one is tried now"
        return f"{self._failures} workers in a row could not work ({self._reason}): no run starts, and {when}"

    @property
    def _is_tripped(self) -> bool:
        return self._failures >= self._opens_after
