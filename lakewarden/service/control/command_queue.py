"""The queue of the control thread: other threads reach it here. Dirty tables are a set, so many hooks need little
memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from lakewarden.executors.contract import PoolEvent
from lakewarden.planners.model.table import TableId


@dataclass(frozen=True, kw_only=True)
class Command:
    """What an operator or a writer wants of the control thread. `begin` gives the answer, at once or later.

    `table` is None if it is about all tables. `changes` says whether the decisions on them may be others afterwards.
    """

    table: TableId | None
    begin: Callable[[], object]
    changes: bool = False
    answer: Future[Any] = field(default_factory=Future)


Message = PoolEvent | Command


class CommandQueue:
    """Messages in order, and the dirty tables, each with whether a hook has said so. Any thread may call every
    method.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._dirty: dict[TableId, bool] = {}
        self._woken = False

    def put(self, message: Message) -> None:
        """Add a message and wake the control thread."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify()

    def mark_dirty(self, table: TableId) -> None:
        """Ask for one observation of a table, as soon as possible."""
        with self._changed:
            self._dirty.setdefault(table, False)
            self._changed.notify()

    def hook_arrived(self, table: TableId) -> None:
        """Ask for the same because a hook says that the table has changed."""
        with self._changed:
            self._dirty[table] = True
            self._changed.notify()

    def wake(self) -> None:
        """End the wait of the control thread."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take(self) -> tuple[list[Message], Mapping[TableId, bool]]:
        """Return all messages and dirty tables, and remove them."""
        with self._changed:
            messages, dirty = list(self._messages), self._dirty
            self._messages.clear()
            self._dirty = {}
            self._woken = False
            return messages, dirty

    def wait(self, seconds: float) -> None:
        """Wait until something is added, but not longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or bool(self._messages) or bool(self._dirty), timeout=seconds)
