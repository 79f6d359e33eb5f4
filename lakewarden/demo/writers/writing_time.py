"""Whether a writer continues: until its time is up, until SIGTERM, or until the process that started it is gone."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType


class WritingTime:
    """Counts `seconds` once it is told to; None is for ever. Must be created in the main thread, for the signals."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._asked = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the process that started this one

    def start_counting(self) -> None:
        """Count the seconds from now, unless the count has begun."""
        if self._seconds is not None:
            self._deadline = self._deadline or time.monotonic() + self._seconds

    def goes_on(self) -> bool:
        """Whether another batch may begin."""
        in_time = self._deadline is None or time.monotonic() < self._deadline
        return in_time and not self._asked and os.getppid() == self._parent

    def sleep_until(self, moment: float) -> None:
        """Sleep until the monotonic `moment`, or until there is a reason to end."""
        while self.goes_on() and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True
