"""The history in the store without a database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.history import DebtPoint, DecisionChange
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run


class MemoryHistory:
    """Keeps decisions with their changes, and points of debt, in dictionaries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[RunId, Run] = {}
        self._decisions: dict[tuple[TableId, Service], DecisionRow] = {}
        self._changes: dict[int, DecisionChange] = {}
        self._last_change = 0
        self._debt: dict[tuple[TableId | None, datetime, str], DebtPoint] = {}

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        """Keep decisions, and add changes to the history."""
        with self._lock:
            self._decisions.update({(row.table, row.service): row for row in rows})
            for row in changes:
                self._last_change += 1
                self._changes[self._last_change] = DecisionChange(number=self._last_change, decision=row)

    def decision_changes(
        self, table: TableId, *, service: Service | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[DecisionChange]:
        """Return changes, the newest first."""
        found = [
            change
            for change in sorted(self._of(table), key=lambda one: -one.number)
            if service in (None, change.decision.service) and (before is None or change.number < before)
        ]
        return found[:limit]

    def decisions_at(self, table: TableId, at: datetime) -> Sequence[DecisionChange]:
        """Return the decision of each service that held at a moment."""
        held = {
            one.decision.service: one
            for one in sorted(self._of(table), key=lambda one: (one.decision.decided_at, one.number))
            if one.decision.decided_at <= at
        }
        return [held[service] for service in sorted(held)]

    def forget_decision_changes(self, *, before: datetime, keep: int, after: int, most: int) -> tuple[int | None, int]:
        """Look at some changes, and delete those that ended long ago or are too many."""
        with self._lock:
            newest = max(self._changes, default=0)
            looked_at = [number for number in sorted(self._changes) if number > after][:most]
            first = self._changes[looked_at[0]] if looked_at else None
            if first is None or (first.decision.decided_at >= before and first.number > newest - keep):
                return None, 0
            gone = [number for number in looked_at if self._is_over(number, before, newest - keep)]
            for number in gone:
                del self._changes[number]
            return looked_at[-1], len(gone)

    def runs_at(self, table: TableId, at: datetime) -> Sequence[Run]:
        """Return the runs that were requested and had not ended."""
        return [
            run
            for run in self._runs.values()
            if run.table == table and run.created_at <= at and (run.ended_at is None or run.ended_at > at)
        ]

    def keep_debt(self, points: Sequence[DebtPoint]) -> None:
        """Keep points."""
        with self._lock:
            self._debt.update({(point.table, point.at, point.replica): point for point in points})

    def debt(self, table: TableId | None, *, since: datetime, until: datetime, grain: int) -> Sequence[DebtPoint]:
        """Return points, the oldest first."""
        found = [
            point
            for point in self._debt.values()
            if point.table == table and since <= point.at <= until and point.grain >= grain
        ]
        return sorted(found, key=lambda point: (point.at, point.replica))

    def forget_debt(self, *, before: Mapping[int, datetime], most: int) -> int:
        """Delete up to `most` old points."""
        with self._lock:
            old = [key for key, point in self._debt.items() if point.grain in before and point.at < before[point.grain]]
            for key in old[:most]:
                del self._debt[key]
            return len(old[:most])

    def _of(self, table: TableId) -> list[DecisionChange]:
        return [
            replace(
                one, until=min((when for when, _ in self._later(one) if when > one.decision.decided_at), default=None)
            )
            for one in [*self._changes.values()]
            if one.decision.table == table
        ]

    def _is_over(self, number: int, before: datetime, too_many: int) -> bool:
        ends = [when for when, later in self._later(self._changes[number]) if later > number]
        return bool(ends) and (min(ends) < before or number <= too_many)

    def _later(self, change: DecisionChange) -> list[tuple[datetime, int]]:
        mine = change.decision
        return [
            (one.decision.decided_at, one.number)
            for one in [*self._changes.values()]
            if (one.decision.table, one.decision.service) == (mine.table, mine.service)
            and one.decision.decided_at >= mine.decided_at
        ]

    def _forget_history(self, gone: Collection[TableId]) -> None:
        self._changes = {key: one for key, one in self._changes.items() if one.decision.table not in gone}
        self._debt = {key: one for key, one in self._debt.items() if one.table not in gone}
