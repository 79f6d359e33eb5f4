"""What the watch asks of whoever looks at tables for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.looks import Answers, LookAsked


class EndReason(StrEnum):
    """Why a process that reads ended before its time: it died, it needed too much memory, its look was overdue, or it
    was frozen.
    """

    DIED = "died"
    SWELLED = "swelled"
    OVERDUE = "overdue"
    SILENT = "silent"


Answered = Callable[[Answers], None]
"""Takes answers, in whatever thread they come."""


class TableReaders(Protocol):
    """Look at tables. Every look that is begun is answered, within a bounded time, and once."""

    def open(self, answered: Answered) -> None:
        """Be ready to read; `answered` is told of every answer."""
        ...

    def begin(self, looks: Sequence[LookAsked]) -> None:
        """Begin looks, and return without waiting. No table is looked at twice at a time."""
        ...

    def forget(self, table: TableId) -> None:
        """Remember nothing of a table that is let go."""
        ...

    def close(self) -> None:
        """Read nothing any more. What was not answered never is."""
        ...
