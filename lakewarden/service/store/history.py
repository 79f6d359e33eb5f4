"""The contract of the history in the store: changes of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.history import DecisionChange
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run


class HistoryStore(Protocol):
    """Keeps what was decided. Raises TemporaryError as the store does."""

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        """Keep decisions, and replace the previous ones. Add `changes` to the history, in the same transaction."""
        ...

    def decision_changes(
        self, table: TableId, *, service: Service | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[DecisionChange]:
        """Return changes of the decisions on a table, the newest first, with numbers below `before` if it is given."""
        ...

    def decisions_at(self, table: TableId, at: datetime) -> Sequence[DecisionChange]:
        """Return the decision of each service that held at a moment."""
        ...

    def forget_decision_changes(self, *, before: datetime, keep: int, after: int, most: int) -> tuple[int | None, int]:
        """Look at `most` changes with numbers above `after`. Delete those that ended before `before`, and those that
        ended and are not among the newest `keep`.

        Return the last number that was looked at, or None at the end, and how many were deleted. A change that holds is
        never deleted.
        """
        ...

    def runs_at(self, table: TableId, at: datetime) -> Sequence[Run]:
        """Return the runs of a table that had been requested at a moment and had not ended, the oldest first."""
        ...
