"""The bracket of a program: it opens the table of a run, lets the steps be taken, and aborts them if that fails."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

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
    waiting, failures, lock = deque(tasks), list[Exception](), threading.Lock()
    stopped = threading.Event()

    def take_on() -> None:
        while True:
            with lock:
                if stopped.is_set() or not waiting:
                    return
                task = waiting.popleft()
            try:
                work(task)
            except Exception as error:  # noqa: BLE001 - the edge of a thread: the caller reads the error
                with lock:
                    failures.append(error)
                    if stops(error):
                        stopped.set()

    threads = [InheritableThread(target=take_on) for _ in range(min(at_a_time, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Errors(failures=failures, stopped=stopped.is_set())
