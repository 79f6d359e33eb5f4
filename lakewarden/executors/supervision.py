"""When a session worker has to be ended, and when it is started again. Rules only: no process, no thread, no clock.

Times are seconds of one monotonic clock, given by the caller.
"""

from __future__ import annotations

from datetime import timedelta

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId


class Watch:
    """What is known of one worker's health, from its start on."""

    def __init__(self, profile: SparkProfile, *, started: float) -> None:
        self._profile = profile
        self._started = started
        self._last_proof: float | None = None
        self._permits: dict[RunId, float] = {}
        self._graces: dict[RunId, float] = {}

    def proof_of_life(self, now: float) -> None:
        """Note that the worker's JVM has answered."""
        self._last_proof = now

    def permit_expires(self, run: RunId, at: float) -> None:
        """Note until when the step that `run` was permitted has to end."""
        self._permits[run] = at

    def step_ended(self, run: RunId) -> None:
        """Note that the permitted step is over."""
        self._permits.pop(run, None)

    def cancelled(self, run: RunId, now: float) -> None:
        """Note that `run` was asked to stop. Asking again does not lengthen its grace."""
        self._graces.setdefault(run, now + self._profile.cancel_grace.total_seconds())

    def run_ended(self, run: RunId) -> None:
        """Expect nothing of `run` any more."""
        self._permits.pop(run, None)
        self._graces.pop(run, None)

    def fault(self, now: float) -> str | None:
        """Return why the worker must be killed now, or None while it is well."""
        if self._last_proof is None:
            limit = self._profile.start_within.total_seconds()
            return f"its session was not up within {limit:g} s" if now - self._started > limit else None
        limit = self._profile.hung_after.total_seconds()
        if now - self._last_proof > limit:
            return f"its JVM has not answered for {limit:g} s"
        for run, at in self._permits.items():
            if now > at:
                return f"the permit of run {run} has expired"
        for run, at in self._graces.items():
            if now > at:
                return f"run {run} was cancelled and has not ended within its grace"
        return None


class Backoff:
    """How long to wait before a worker is started again: at once after a good life, else longer and longer."""

    FIRST = timedelta(seconds=1)
    LONGEST = timedelta(minutes=1)

    def __init__(self) -> None:
        self._deaths = 0

    def worked(self) -> None:
        """Note that the worker did what it is for: its next death counts as a first one."""
        self._deaths = 0

    def after_death(self) -> timedelta:
        """Count one death and return how long to wait."""
        self._deaths += 1
        if self._deaths == 1:
            return timedelta(0)
        doublings = min(self._deaths - 2, 10)
        return min(self.FIRST * (1 << doublings), self.LONGEST)
