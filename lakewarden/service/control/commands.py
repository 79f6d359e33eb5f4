"""Commands: where other threads reach the control thread. Dirty tables are a set, so a flood of hooks stays small."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from lakewarden.executors.contract import PoolEvent
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import Run
from lakewarden.service.state.barriers import BarrierAsked


@dataclass(frozen=True, kw_only=True)
class RunAsked:
    """A person asks for a run; the answer is the run (new or already active), or why there is none."""

    table: TableId
    service: Service
    by: str
    answer: Future[RunGiven | Blocked | NotDue] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunGiven:
    """The run that a request led to; `new` tells whether the request made it."""

    run: Run
    new: bool


@dataclass(frozen=True, kw_only=True)
class PauseAsked:
    """A person pauses (`reason` given) or resumes (None) a table, or everything where `table` is None."""

    table: TableId | None
    reason: str | None
    answer: Future[None] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class Approved:
    """A person lets a deletion through that waits for it; the answer tells whether one was waiting."""

    table: TableId
    service: Service
    by: str
    answer: Future[bool] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class BarrierLifted:
    """A writer that holds cleans back no longer needs that."""

    table: TableId
    answer: Future[None] = field(default_factory=Future)


Wish = RunAsked | PauseAsked | Approved | BarrierAsked | BarrierLifted
"""What people and writers ask for, each with a Future for the answer."""


Letter = PoolEvent | Wish


class CommandQueue:
    """Letters in order, and the set of dirty tables. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._letters: deque[Letter] = deque()
        self._dirty: set[TableId] = set()
        self._woken = False

    def put(self, letter: Letter) -> None:
        """Leave a letter and wake the control thread."""
        with self._changed:
            self._letters.append(letter)
            self._changed.notify()

    def mark_dirty(self, table: TableId) -> None:
        """Ask for a look at a table, as soon as possible and once."""
        with self._changed:
            self._dirty.add(table)
            self._changed.notify()

    def wake(self) -> None:
        """End the control thread's sleep."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take(self) -> tuple[list[Letter], set[TableId]]:
        """Return all letters and dirty tables, and keep none."""
        with self._changed:
            letters, dirty = list(self._letters), self._dirty
            self._letters.clear()
            self._dirty = set()
            self._woken = False
            return letters, dirty

    def wait(self, seconds: float) -> None:
        """Sleep until something is put in, but not longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or bool(self._letters) or bool(self._dirty), timeout=seconds)
