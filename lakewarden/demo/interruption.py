"""Ctrl-C at any moment: a signal is recorded when it comes, and obeyed at the next safe moment."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SLICE_SECONDS = 0.05


class InterruptedDemoError(Exception):
    """A signal ended the demo. `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


class Interruption:
    """While it is open, a signal ends the demo at its next `pause` or `check`, and never in between. So no child is
    started without being registered. Further signals change nothing, for the demo is ending already.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise InterruptedDemoError if a signal came."""
        if self._came is not None:
            raise InterruptedDemoError(self._came)

    def pause(self, seconds: float) -> None:
        """Sleep. Raises InterruptedDemoError as soon as a signal comes."""
        deadline = time.monotonic() + seconds
        self.check()
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))
            self.check()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal raise in the middle of the body. The body must be safe to interrupt."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first = self._came is None
        self._came = self._came or number
        if self._at_once and first:
            raise InterruptedDemoError(number)
