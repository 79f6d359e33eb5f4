"""Shutdown: how the daemon's end goes on, from the first signal until the workers are closed. Rules only."""

from __future__ import annotations

import threading
from datetime import timedelta
from enum import StrEnum

from lakewarden.planners.model.clock import Clock

STEP_BACK = timedelta(seconds=5)
"""Cancelled runs have this long to step back: an abort in good order takes the heartbeat of its instant away, and
whoever comes next need not wait until it has run out."""


class Phase(StrEnum):
    """What may still happen."""

    SERVING = "serving"
    DRAINING = "draining"
    """Nothing is begun; what runs may finish."""
    STEPPING_BACK = "stepping back"
    """No step is granted; what runs was told to stop."""
    OVER = "over"
    """What still runs is killed with its JVM, and taken up again by whoever comes next."""


class Shutdown:
    """Tells the phase. The first `ask` begins it, a second one ends it at once."""

    def __init__(self, *, clock: Clock, drain: timedelta) -> None:
        """`drain` is how long running work may go on; zero is safe."""
        self._clock = clock
        self._drain = drain
        self._asked_at: float | None = None
        self._at_once = threading.Event()

    def ask(self) -> None:
        """Begin to end, or end at once; safe in any thread."""
        if self._asked_at is not None:
            self._at_once.set()
        else:
            self._asked_at = self._clock.monotonic()

    def is_asked(self) -> bool:
        """Whether the daemon is ending."""
        return self._asked_at is not None

    def phase(self, *, busy: bool) -> Phase:
        """Return the phase now; `busy` tells whether a worker is carrying out a run."""
        if self._asked_at is None:
            return Phase.SERVING
        if self._at_once.is_set() or not busy:
            return Phase.OVER
        since = timedelta(seconds=self._clock.monotonic() - self._asked_at)
        if since < self._drain:
            return Phase.DRAINING
        return Phase.STEPPING_BACK if since < self._drain + STEP_BACK else Phase.OVER
