"""The bracket of a program: it opens the table of a run, lets the steps be taken, and aborts them if that fails."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pyspark import InheritableThread

from lakewarden.executors.contract import Assignment, Steps
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.ports import Storage


@runtime_checkable
class Abortable(Protocol):
    """Steps that can be aborted."""

    def abort(self) -> None:
        """Abort, as far as that is possible."""
        ...


_Steps = TypeVar("_Steps")


@contextlib.contextmanager
def undertaken(steps: _Steps) -> Iterator[_Steps]:
    """Let the steps be taken. If that fails, abort those that can be aborted."""
    try:
        yield steps
    except Exception:
        if isinstance(steps, Abortable):
            steps.abort()
        raise


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """Fulfils `contract.Program`. `opened` opens the table of a run with its clock, makes its steps, and frees the
    table in any case.
    """

    opened: Callable[[Any, Assignment, Storage, Clock], AbstractContextManager[Steps]]
    clock: Clock = field(default_factory=SystemClock)

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table for one run, and abort the steps if one fails."""
        with self.opened(session, assignment, storage, self.clock) as steps, undertaken(steps):
            yield steps


# Tasks of a program that are done in several threads, each with the properties that the thread of the run has in its
# JVM.

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
