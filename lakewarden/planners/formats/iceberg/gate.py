"""The way to a server that many threads ask: few at a time, and nobody for a while after it gave no answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakewarden.planners.model.errors import PermanentError, TemporaryError

AT_ONCE = 4
"""So many may ask at a time; only one until the server has answered, and after it gave no answer."""

PATIENCE_SECONDS = 1.0
"""One who comes after these waits no longer than that: the server is slow, and the thread is needed elsewhere."""

REST_SECONDS = 5.0
"""For so long nobody asks a server that gave no answer."""


class RefusedError(PermanentError):
    """A server turned us away: the name, the secret or the right that it asks for is wrong, or no longer right."""


class Gate:
    """Keeps those who read other servers' tables from waiting for this one. For any thread."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        """`name` is what people know the server by."""
        self._name = name
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._inside = 0
        self._places = 1
        self._trouble: str | None = None
        self._closed_until = 0.0

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Ask the server within the bracket, out of which a TemporaryError means that it gave no answer.

        Raises TemporaryError where it gave none to others just now, or lets them wait.
        """
        self._enter()
        trouble = None
        try:
            yield
        except TemporaryError as error:
            trouble = str(error)
            raise
        finally:
            self._leave(trouble)

    def _enter(self) -> None:
        with self._changed:
            if self._trouble is not None and (self._inside or self._monotonic() < self._closed_until):
                raise TemporaryError(self._trouble)
            if not self._changed.wait_for(lambda: self._inside < self._places, timeout=PATIENCE_SECONDS):
                self._close(f"{self._name} is slow: {self._inside} of its requests are not answered yet")
                raise TemporaryError(str(self._trouble))
            self._inside += 1

    def _leave(self, trouble: str | None) -> None:
        with self._changed:
            self._inside -= 1
            if trouble is None:
                self._trouble = None
                self._places = AT_ONCE
            else:
                self._close(trouble)
            self._changed.notify_all()

    def _close(self, trouble: str) -> None:
        self._trouble = trouble
        self._places = 1
        self._closed_until = self._monotonic() + REST_SECONDS
