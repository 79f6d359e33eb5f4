"""Until when a worker may live: as long as the daemon said last, and not a moment longer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakewarden.planners.model.clock import Clock

_LOOK_EVERY_SECONDS = 0.2
"""A thread waits on a clock that stands still while the machine sleeps, so it must not wait for long at a time."""


class Lifetime:
    """The moment at which the daemon's right to act on its tables ends. Any thread may ask.

    Without a moment there is no limit: a daemon says the first one as soon as it has begun. None binds before the
    session is up (`bind`): until then nothing is at stake, and what was said meanwhile may be read late.
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
        """Whether the moment has passed: from then on nothing may be begun, said or committed."""
        return self._bound and self._until is not None and self._clock.monotonic() >= self._until

    @property
    def until(self) -> float | None:
        """The moment, in seconds of the machine's monotonic clock; None while there is no limit."""
        return self._until

    def extend(self, until: float) -> bool:
        """Let the moment be `until`, unless a later one was said. False: it comes too late, and nothing is changed."""
        if self.is_over:
            return False
        self._until = until if self._until is None else max(self._until, until)
        return True

    def watch(self, end: Callable[[], object]) -> None:
        """Call `end` once the moment has passed, from a thread that waits for nothing else."""
        threading.Thread(target=self._watch, args=(end,), name="lifetime", daemon=True).start()

    def _watch(self, end: Callable[[], object]) -> None:
        pause = threading.Event()
        while not self.is_over:
            pause.wait(_LOOK_EVERY_SECONDS)
        end()
