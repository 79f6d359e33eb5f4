"""A few threads in which tables of remote stores are read, so that a slow store stops nobody else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Readers(Protocol):
    """Whoever reads: threads, or in tests the caller's own."""

    def submit(self, read: Callable[[], _T]) -> Future[_T]:
        """Begin to read, now or as soon as somebody is free."""
        ...


class ReaderThreads:
    """Threads that are started when they are first needed and end with the process, whatever they wait for."""

    def __init__(self, count: int = 16) -> None:
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._starting = threading.Lock()

    def submit(self, read: Callable[[], _T]) -> Future[_T]:
        """Begin to read as soon as a thread is free."""
        with self._starting:
            while self._count:
                threading.Thread(target=self._serve, name=f"reader-{self._count}", daemon=True).start()
                self._count -= 1
        answer: Future[_T] = Future()
        self._tasks.put((answer, read))
        return answer

    def _serve(self) -> None:
        while True:
            answer, read = self._tasks.get()
            if not answer.set_running_or_notify_cancel():
                continue  # whoever asked has given up
            try:
                answer.set_result(read())
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: it is raised where the answer is read
                answer.set_exception(error)
