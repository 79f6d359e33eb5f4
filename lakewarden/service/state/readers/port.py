"""What the observations require of the readers of tables, and readers in the thread of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.reading.observing import Answers, ObservationRequest, Observer


class EndReason(StrEnum):
    """Why a reader process ended early: it died, it needed too much memory, an observation was overdue, or it was
    frozen.
    """

    DIED = "died"
    SWELLED = "swelled"
    OVERDUE = "overdue"
    SILENT = "silent"


Answered = Callable[[Answers], None]
"""Takes answers, in any thread."""


class TableReaders(Protocol):
    """Observe tables. Every request is answered once, within a bounded time."""

    def open(self, answered: Answered) -> None:
        """Be ready to read. `answered` gets every answer."""
        ...

    def begin(self, requests: Sequence[ObservationRequest]) -> None:
        """Begin observations, and return without waiting. There are never two of one table at a time."""
        ...

    def forget(self, table: TableId) -> None:
        """Forget a table."""
        ...

    def close(self) -> None:
        """Read no more. Open requests are never answered."""
        ...


class InlineReaders:
    """Answers before `begin` returns. If a storage hangs, the caller waits."""

    def __init__(
        self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage], clock: Clock
    ) -> None:
        self._observer = Observer(formats=formats, storage_for=storage_for)
        self._clock = clock
        self._answered: Answered = lambda _: None

    def open(self, answered: Answered) -> None:
        """Note the receiver of the answers."""
        self._answered = answered

    def begin(self, requests: Sequence[ObservationRequest]) -> None:
        """Observe the tables, and answer."""
        for request in requests:
            answer = self._observer.observe(request, now=self._clock.now())
            self._answered(Answers((request.ticket,)) if answer is None else Answers(others=(answer,)))

    def forget(self, table: TableId) -> None:
        """Forget a table."""
        self._observer.forget(table)

    def close(self) -> None:
        """Do nothing, because there is no process to end."""
