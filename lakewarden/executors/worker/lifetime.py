"""Until when a worker may live: until the moment that the daemon sent last."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakewarden.planners.model.clock import Clock

_LOOK_EVERY_SECONDS = 0.2
"""A waiting thread uses a clock that stands still while the machine is suspended. So it must not wait for long at a
time."""


class Lifetime:
    """The moment at which the daemon's right to act on its tables ends. Any thread may use it.

    Without a moment there is no limit. The daemon sends the first one as soon as it has begun. No moment counts before
    the session is up (`bind`): until then nothing can be damaged, and frames may be read late.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._bound = False

    def bind(self) -> None:
        """Let the moment count from now on."""
        self._bound = True

    @property
    def is_over(self) -> bool:
        """Whether the moment is over. Then nothing may be begun, sent or committed any more."""
        return self._bound and self._until is not None and self._clock.monotonic() >= self._until

    @property
    def until(self) -> float | None:
        """The moment, in seconds of the machine's monotonic clock. None while there is no limit."""
        return self._until

    def extend(self, until: float) -> bool:
        """Set the moment to `until`, unless a later one was set. If it comes too late, return False and change
        nothing.
        """
        if self.is_over:
            return False
        self._until = until if self._until is None else max(self._until, until)
        return True

    def watch(self, end: Callable[[], object]) -> None:
        """Call `end` when the moment is over. The calling thread does nothing else."""
        threading.Thread(target=self._watch, args=(end,), name="lifetime", daemon=True).start()

    def _watch(self, end: Callable[[], object]) -> None:
        pause = threading.Event()
        while not self.is_over:
            pause.wait(_LOOK_EVERY_SECONDS)
        end()
