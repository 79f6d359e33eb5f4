"""Threads for other calls that may hang: claims, and the listings of catalogs."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Threads(Protocol):
    """Carries out calls: in threads, or in tests in the thread of the caller."""

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Begin now, or as soon as a thread is free. `place` is what may hang: a mount, a bucket, a catalog."""
        ...


class PlacedThreads:
    """Threads that are started when they are needed and end with the process, even if they hang.

    No place has more than a few of them. So a place that hangs leaves threads for the others.
    """

    def __init__(self, *, most: int = 64, of_a_place: int = 4) -> None:
        self._most = most
        self._of_a_place = of_a_place
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Future[Any], Callable[[], Any]]] = deque()
        self._busy: Counter[str] = Counter()
        self._threads = 0
        self._idle = 0

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Begin as soon as a thread is free."""
        answer: Future[_T] = Future()
        with self._changed:
            self._waiting.append((place, answer, act))
            if len(self._waiting) > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"thread-{self._threads}", daemon=True).start()
            self._changed.notify()
        return answer

    def _serve(self) -> None:
        while True:
            place, answer, act = self._next()
            try:
                if answer.set_running_or_notify_cancel():  # else the caller has given up
                    answer.set_result(act())
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: it is raised where the answer is read
                answer.set_exception(error)
            with self._changed:
                self._busy[place] -= 1
                self._busy += Counter()  # keeps none of zero
                self._changed.notify()

    def _next(self) -> tuple[str, Future[Any], Callable[[], Any]]:
        with self._changed:
            self._idle += 1
            while (found := self._fitting()) is None:
                self._changed.wait()
            self._idle -= 1
            self._waiting.remove(found)
            self._busy[found[0]] += 1
            return found

    def _fitting(self) -> tuple[str, Future[Any], Callable[[], Any]] | None:
        return next((one for one in self._waiting if self._busy[one[0]] < self._of_a_place), None)


class CallersThread:
    """Carries out a call at once, in the thread of the caller. For tests."""

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Carry out the call, and return its result."""
        answer: Future[_T] = Future()
        try:
            answer.set_result(act())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is read
            answer.set_exception(error)
        return answer
