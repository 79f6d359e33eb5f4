"""What the observations require of the readers of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.observing import Answers, ObservationRequest


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
