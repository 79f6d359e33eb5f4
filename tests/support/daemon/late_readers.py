"""Readers that look when the test says so, as those do whose storage takes its time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.observing import ObservationRequest
from lakewarden.service.state.readers.port import Answered, InlineReaders


class LateReaders:
    """Takes looks, and makes the oldest one when `look` is called. What it shows is what the table is then."""

    def __init__(self, readers: InlineReaders, *, slow: Collection[TableId] | None = None) -> None:
        """Only looks at `slow` tables are late; by default all are."""
        self._readers = readers
        self._slow = slow
        self.asked: deque[ObservationRequest] = deque()

    def open(self, answered: Answered) -> None:
        """Be ready to read."""
        self._readers.open(answered)

    def begin(self, looks: Sequence[ObservationRequest]) -> None:
        """Take looks."""
        for asked in looks:
            if self._slow is None or asked.table.id in self._slow:
                self.asked.append(asked)
            else:
                self._readers.begin([asked])

    def look(self) -> None:
        """Make the oldest look, and answer it."""
        self._readers.begin([self.asked.popleft()])

    def forget(self, table: TableId) -> None:
        """Remember nothing of a table."""
        self._readers.forget(table)

    def close(self) -> None:
        """Do nothing."""
