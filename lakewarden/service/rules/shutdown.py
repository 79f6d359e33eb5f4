"""Shutdown: the phases of the end of the daemon, from the first signal until the workers are closed. Rules only."""

from __future__ import annotations

import threading
from datetime import timedelta
from enum import StrEnum

from lakewarden.planners.model.clock import Clock

STEP_BACK = timedelta(seconds=5)
"""The time that cancelled runs have to abort. An abort in good order removes the heartbeat of the instant, so the next
executor need not wait until it runs out.
"""


class ShutdownPhase(StrEnum):
    """The phase of the shutdown."""

    SERVING = "serving"
    DRAINING = "draining"
    """No run is started. Active runs may finish."""
    STEPPING_BACK = "stepping back"
    """No permit is given. Active runs were told to stop."""
    OVER = "over"
    """Active runs are killed with their JVMs. The next daemon takes their plans up again."""


class Shutdown:
    """Holds the phase. The first `ask` begins the shutdown, a second one ends it at once."""

    def __init__(self, *, clock: Clock, drain: timedelta) -> None:
        """`drain` is how long active runs may go on. Zero is safe."""
        self._clock = clock
        self._drain = drain
        self._asked_at: float | None = None
        self._at_once = threading.Event()

    def ask(self) -> None:
        """Begin the shutdown, or end it at once. Any thread may call it."""
        if self._asked_at is not None:
            self._at_once.set()
        else:
            self._asked_at = self._clock.monotonic()

    def is_asked(self) -> bool:
        """Whether the shutdown has begun."""
        return self._asked_at is not None

    def phase(self, *, busy: bool) -> ShutdownPhase:
        """Return the phase now. `busy` says whether a worker is carrying out a run."""
        if self._asked_at is None:
            return ShutdownPhase.SERVING
        if self._at_once.is_set() or not busy:
            return ShutdownPhase.OVER
        since = timedelta(seconds=self._clock.monotonic() - self._asked_at)
        if since < self._drain:
            return ShutdownPhase.DRAINING
        return ShutdownPhase.STEPPING_BACK if since < self._drain + STEP_BACK else ShutdownPhase.OVER
