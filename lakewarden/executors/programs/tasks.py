"""Tasks of a program that are done in several threads, each with the properties that the thread of the run has in its
JVM.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyspark import InheritableThread

_Task = TypeVar("_Task")


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """The errors of tasks. `stopped` says that no further task was begun because of one of them."""

    failures: list[Exception]
    stopped: bool


def carry_out(
    tasks: Iterable[_Task], work: Callable[[_Task], None], *, at_a_time: int, stops: Callable[[Exception], bool]
) -> Errors:
    """Do `work` for each task. Return when no thread is working any more. After an error that `stops` no further task
    is begun.
    """
    threads = _Threads(tasks, work, stops)
    threads.run(at_a_time)
    return Errors(failures=threads.failures, stopped=threads.stopped)


class _Threads(Generic[_Task]):
    def __init__(
        self, tasks: Iterable[_Task], work: Callable[[_Task], None], stops: Callable[[Exception], bool]
    ) -> None:
        self.failures: list[Exception] = []
        self.stopped = False
        self._work = work
        self._stops = stops
        self._waiting = deque(tasks)
        self._lock = threading.Lock()

    def run(self, at_a_time: int) -> None:
        threads = [InheritableThread(target=self._take_on) for _ in range(min(at_a_time, len(self._waiting)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _take_on(self) -> None:
        while (task := self._next()) is not None:
            try:
                self._work(task)
            except Exception as error:  # noqa: BLE001 - the edge of a thread: the caller reads the error
                with self._lock:
                    self.failures.append(error)
                    self.stopped = self.stopped or self._stops(error)

    def _next(self) -> _Task | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self.stopped else None
