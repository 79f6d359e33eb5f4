"""The bracket of a program: it opens the table of a run, lets the steps be taken, and aborts them if that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from lakewarden.executors.contract import Assignment, Steps
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import Settings


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
    """Fulfils `contract.Program`. `opened` opens the table of a run with its clock and its options, and frees it in any
    case. `steps` makes the steps of the table and the options.
    """

    opened: Callable[[Any, Assignment, Storage, Clock, Any], AbstractContextManager[Any]]
    steps: Callable[[Any, Any], Steps]
    options: type[Settings]
    clock: Clock = field(default_factory=SystemClock)

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table for one run, and abort the steps if one fails."""
        options = self.options.model_validate(dict(assignment.service_options))
        with (
            self.opened(session, assignment, storage, self.clock, options) as table,
            undertaken(self.steps(table, options)) as steps,
        ):
            yield steps
