"""Commands: other threads reach the control thread here. Dirty tables are a set, so many hooks need little memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from lakewarden.executors.contract import PoolEvent
from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.access import LOCAL, Caller
from lakewarden.service.model.run import Run
from lakewarden.service.state.barriers import BarrierAsked


@dataclass(frozen=True, kw_only=True)
class RunAsked:
    """An operator requests a run. The answer is the run (new or already active), or why there is none.

    `rewrite_all` asks for a rewrite of all files that the table has now. With `dry_run` only its plan is made.
    """

    table: TableId
    service: Service
    by: str
    rewrite_all: bool = False
    dry_run: bool = False
    caller: Caller = LOCAL
    answer: Future[RunGiven | Blocked | NotDue | WouldRun | DoesNotApply] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunGiven:
    """The answer to a request for a run. `new` says whether the request made the run."""

    run: Run
    new: bool


@dataclass(frozen=True, kw_only=True)
class DryRunAsked:
    """An operator asks what a request for a run would meet now. Nothing is stored, and nothing changes."""

    table: TableId
    service: Service
    answer: Future[DryRun] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a request for a run would meet: the decision on it, and the run that is active and would be its answer. The
    decision is made as for that request: it skips the trigger and the window.
    """

    decision: Decision
    active: Run | None
    view: TableView


@dataclass(frozen=True, kw_only=True)
class PauseAsked:
    """An operator pauses (`reason` given) or resumes (None) a table, or all tables if `table` is None."""

    table: TableId | None
    reason: str | None
    caller: Caller = LOCAL
    answer: Future[None] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class Approved:
    """An operator approves a deletion that waits for it. The answer says whether one was waiting."""

    table: TableId
    service: Service
    by: str
    caller: Caller = LOCAL
    answer: Future[bool] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class RewriteEnded:
    """An operator withdraws a rewrite of all files. The answer says whether there was one."""

    table: TableId
    service: Service
    caller: Caller = LOCAL
    answer: Future[bool] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class BarrierLifted:
    """A caller ends holds on the cleans of a table. Only an operator ends those of others.

    `hold` is the id of one hold. None: all holds that the caller may end. The answer is how many holds were ended. It
    raises PermanentError if the hold belongs to another caller.
    """

    table: TableId
    hold: str | None = None
    caller: Caller = LOCAL
    answer: Future[int] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class RunCancelled:
    """An operator stops a run. The answer is the run, which may still be ending, or None if it is not active.

    The answer raises PermanentError if the run has begun to commit, or if it is not known whether it has.
    """

    table: TableId
    run: RunId
    caller: Caller = LOCAL
    answer: Future[Run | None] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True)
class QuarantineAsked:
    """An operator puts a service of a table in quarantine (`reason` given), or releases it (None).

    The answer of a release says whether there was a quarantine or a backoff.
    """

    table: TableId
    service: Service
    reason: str | None
    caller: Caller = LOCAL
    answer: Future[bool] = field(default_factory=Future)


Command = (
    RunAsked
    | DryRunAsked
    | PauseAsked
    | Approved
    | RewriteEnded
    | BarrierAsked
    | BarrierLifted
    | RunCancelled
    | QuarantineAsked
)
"""The commands of operators and writers, each with a Future for the answer."""


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
