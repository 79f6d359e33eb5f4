"""Threads for other calls that may hang: the listings of catalogs, and questions to clusters. Each has a place that may
hang.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
_OCTAL = re.compile(r"\\([0-7]{3})")


def place_of(location: str) -> str:
    """Return the bucket, container, host or catalog of a canonical location. For a local path, return its mount point.

    The mount points are those of the first call. No storage is asked.
    """
    scheme, separator, rest = location.partition("://")
    if separator:
        return f"{scheme}://{rest.partition('/')[0]}"
    return next((mount for mount in _mount_points() if location == mount or location.startswith(f"{mount}/")), "/")


@lru_cache(maxsize=1)
def _mount_points() -> tuple[str, ...]:
    """Return the mount points but the root, the longest first. Source: proc(5), mountinfo, field 5."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    points = {_OCTAL.sub(lambda code: chr(int(code[1], 8)), line.split()[_MOUNT_POINT]) for line in lines if line}
    return tuple(sorted(points - {"/"}, key=len, reverse=True))


_T = TypeVar("_T")


class Threads(Protocol):
    """Carries out calls: in threads, or in tests in the thread of the caller."""

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Begin now, or as soon as a thread is free. `place` is what may hang: a mount, a bucket, a catalog."""
        ...


class PlacedThreads:
    """Threads that are started when they are needed and end when nothing waits. They end with the process, even if they
    hang.

    No place has more than `of_a_place` of them, and all places together have no more than `most`. But each place may
    have one: however many places hang, the next one is served.
    """

    def __init__(self, *, most: int = 64, of_a_place: int = 4) -> None:
        self._most = most
        self._of_a_place = of_a_place
        self._changing = threading.Lock()
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._busy: Counter[str] = Counter()

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Begin as soon as a thread is free."""
        answer: Future[_T] = Future()
        with self._changing:
            self._waiting.setdefault(place, deque()).append((answer, act))
            busy = self._busy[place]
            if busy < self._of_a_place and (not busy or self._busy.total() < self._most):
                self._busy[place] += 1
                threading.Thread(target=self._serve, args=(place,), name=f"thread of {place}", daemon=True).start()
        return answer

    def _serve(self, place: str) -> None:
        while (called := self._next(place)) is not None:
            answer, act = called
            try:
                if answer.set_running_or_notify_cancel():  # else the caller has given up
                    answer.set_result(act())
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: it is raised where the answer is read
                answer.set_exception(error)

    def _next(self, place: str) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Return the next call, or None if the thread must end."""
        with self._changing:
            waiting = self._waiting.get(place)
            if waiting:
                return waiting.popleft()
            self._waiting.pop(place, None)
            self._busy[place] -= 1
            self._busy += Counter()  # keeps none of zero
            return None
