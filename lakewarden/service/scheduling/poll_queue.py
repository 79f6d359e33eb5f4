"""The poll queue: when each table is observed next. It is a heap, with every table in it at most once."""

from __future__ import annotations

import heapq
import itertools

from lakewarden.planners.model.table import TableId


class PollQueue:
    """Appointments in monotonic seconds. Only the control thread uses it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TableId]] = []
        self._appointments: dict[TableId, float] = {}
        self._order = itertools.count()

    def put(self, table: TableId, at: float) -> None:
        """Make an appointment, unless the table already has an earlier one."""
        known = self._appointments.get(table)
        if known is not None and known <= at:
            return
        self._appointments[table] = at
        heapq.heappush(self._heap, (at, next(self._order), table))

    def drop(self, table: TableId) -> None:
        """Cancel the appointment of the table, if it has one."""
        self._appointments.pop(table, None)

    def pop(self, now: float) -> TableId | None:
        """Remove and return a table that is due, the longest overdue first, or None."""
        while self._heap and self._heap[0][0] <= now:
            at, _, table = heapq.heappop(self._heap)
            if self._appointments.get(table) == at:
                del self._appointments[table]
                return table
        return None

    def next_at(self) -> float | None:
        """Return the time of the next appointment."""
        while self._heap and self._appointments.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # it was cancelled, or moved to an earlier time
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._appointments)
