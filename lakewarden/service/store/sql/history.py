"""The history in a store on a database: changes of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.history import DecisionChange
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database
from lakewarden.service.store.sql.dialects import put

_change = schema.decision_changes.c


class SqlHistory(Database):
    """Keeps decisions with their changes."""

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        """Keep decisions, and add changes to the history."""
        with self._write() as connection:
            put(connection, schema.decisions, [_columns(row) for row in rows])
            if changes:
                connection.execute(sa.insert(schema.decision_changes), [_columns(row) for row in changes])

    def decision_changes(
        self, table: TableId, *, service: Service | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[DecisionChange]:
        """Return changes, the newest first."""
        query = _changes().where(_change.table_id == table)
        if service is not None:
            query = query.where(_change.service == service)
        if before is not None:
            query = query.where(_change.number < before)
        with self._read() as connection:
            return [_changed(row) for row in connection.execute(query.order_by(_change.number.desc()).limit(limit))]

    def decisions_at(self, table: TableId, at: datetime) -> Sequence[DecisionChange]:
        """Return the decision of each service that held at a moment."""
        last = sa.select(_change.service, sa.func.max(_change.decided_at)).group_by(_change.service)
        with self._read() as connection:
            found = []
            for service, since in connection.execute(
                last.where(_change.table_id == table, _change.decided_at <= at).order_by(_change.service)
            ).all():
                same = (_change.table_id == table, _change.service == service, _change.decided_at == since)
                newest = _changes().where(*same).order_by(_change.number.desc()).limit(1)
                found.append(_changed(connection.execute(newest).one()))
        return found

    def forget_decision_changes(self, *, before: datetime, keep: int, after: int, most: int) -> tuple[int | None, int]:
        """Look at some changes, and delete those that ended long ago or are too many."""
        later = schema.decision_changes.alias()
        ended = (
            sa.exists()
            .where(later.c.table_id == _change.table_id, later.c.service == _change.service)
            .where(later.c.decided_at >= _change.decided_at, later.c.number > _change.number)
        )
        with self._write() as connection:
            newest = connection.scalar(sa.select(sa.func.max(_change.number))) or 0
            step = sa.select(_change.number, _change.decided_at).where(_change.number > after)
            rows = connection.execute(step.order_by(_change.number).limit(most)).all()
            if not rows or (rows[0].decided_at >= before and rows[0].number > newest - keep):
                return None, 0
            some = sa.delete(schema.decision_changes).where(_change.number.between(rows[0].number, rows[-1].number))
            too_old, too_many = ended.where(later.c.decided_at < before), (_change.number <= newest - keep) & ended
            return rows[-1].number, connection.execute(some.where(too_old | too_many)).rowcount


def _changes() -> sa.Select[Any]:
    later = schema.decision_changes.alias()
    same = (later.c.table_id == _change.table_id, later.c.service == _change.service)
    until = sa.select(sa.func.min(later.c.decided_at)).where(*same, later.c.decided_at > _change.decided_at)
    return sa.select(schema.decision_changes, until.scalar_subquery().label("until"))


def _columns(row: DecisionRow) -> dict[str, Any]:
    values = asdict(row)
    return {"table_id": values.pop("table"), **values}


def _changed(row: sa.Row[Any]) -> DecisionChange:
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    number, until = values.pop("number"), values.pop("until")
    table, service = TableId(values.pop("table_id")), Service(values.pop("service"))
    return DecisionChange(number=number, until=until, decision=DecisionRow(table=table, service=service, **values))
