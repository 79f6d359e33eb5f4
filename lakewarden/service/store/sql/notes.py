"""The rows about tables in a store on a database: decisions, service states, lock proofs, pauses and approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import (
    ApprovalRow,
    DecisionRow,
    FolderRow,
    LockProofRow,
    RewriteRow,
    ServiceStateRow,
    WriterSignsRow,
)
from lakewarden.service.model.run import DecisionChange
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database, put

_kept = schema.decisions.c
_DECISIONS = (
    sa.select(schema.decisions)
    .where(_kept.table_id.in_(sa.bindparam("tables", expanding=True)))
    .order_by(_kept.table_id, _kept.service)
)

Row = ServiceStateRow | ApprovalRow | RewriteRow | LockProofRow | WriterSignsRow | FolderRow
_R = TypeVar("_R", bound=Row)
_TABLES: Mapping[type, sa.Table] = {
    ServiceStateRow: schema.service_states,
    ApprovalRow: schema.approvals,
    RewriteRow: schema.rewrites,
    LockProofRow: schema.lock_proofs,
    WriterSignsRow: schema.writer_signs,
    FolderRow: schema.folders,
}


class SqlNotes(Database):
    """Keeps one row for each table, or for each service of it."""

    def decisions(self, *tables: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of tables."""
        with self._read() as connection:
            return [DecisionRow(**_fields(row)) for row in connection.execute(_DECISIONS, {"tables": tables})]

    def keep_row(self, row: Row) -> None:
        """Keep a row, and replace the previous one of its kind about the same table and service."""
        values = {field.name: getattr(row, field.name) for field in fields(row)}
        with self._write() as connection:
            put(connection, _TABLES[type(row)], [{"table_id": values.pop("table"), **values}])

    def rows(self, kind: type[_R]) -> Sequence[_R]:
        """Return all rows of a kind."""
        with self._read() as connection:
            return [kind(**_fields(row)) for row in connection.execute(sa.select(_TABLES[kind]))]

    def forget_row(self, kind: type[Row], table: TableId, service: Service) -> None:
        """Delete the row of a kind about a service of a table, if there is one."""
        columns = _TABLES[kind].c
        with self._write() as connection:
            connection.execute(sa.delete(_TABLES[kind]).where(columns.table_id == table, columns.service == service))

    def tables_in(self, folder: str) -> Sequence[FolderRow]:
        """Return the tables of catalogs that lie in one folder."""
        query = sa.select(schema.folders).where(schema.folders.c.folder == folder)
        with self._read() as connection:
            return [FolderRow(**_fields(row)) for row in connection.execute(query)]

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or all tables if `table` is None."""
        with self._write() as connection:
            row = {"table_id": table or schema.EVERYTHING, "reason": reason, "paused_at": at}
            put(connection, schema.pauses, [row])

    def resume(self, table: TableId | None) -> None:
        """End a pause, if there is one."""
        with self._write() as connection:
            connection.execute(sa.delete(schema.pauses).where(schema.pauses.c.table_id == (table or schema.EVERYTHING)))

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason. The global pause is under None."""
        with self._read() as connection:
            rows = connection.execute(sa.select(schema.pauses)).all()
        return {(TableId(row.table_id) if row.table_id else None): row.reason for row in rows}


def _fields(row: sa.Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    if "service" in values:
        values["service"] = Service(row.service)
    return {"table": TableId(values.pop("table_id")), **values}


# The history in a store on a database: changes of decisions.

_change = schema.decision_changes.c


class SqlHistory(Database):
    """Keeps decisions with their changes."""

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        """Keep decisions, and replace the previous ones. Add `changes` to the history, in the same transaction."""
        with self._write() as connection:
            put(connection, schema.decisions, [_decision_columns(row) for row in rows])
            if changes:
                connection.execute(sa.insert(schema.decision_changes), [_decision_columns(row) for row in changes])

    def decision_changes(
        self, table: TableId, *, service: Service | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[DecisionChange]:
        """Return changes of the decisions on a table, the newest first, with numbers below `before` if it is given."""
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
            changes = []
            for service, since in connection.execute(
                last.where(_change.table_id == table, _change.decided_at <= at).order_by(_change.service)
            ).all():
                same = (_change.table_id == table, _change.service == service, _change.decided_at == since)
                newest = _changes().where(*same).order_by(_change.number.desc()).limit(1)
                changes.append(_changed(connection.execute(newest).one()))
        return changes

    def forget_decision_changes(self, *, before: datetime, keep: int, after: int, most: int) -> tuple[int | None, int]:
        """Look at `most` changes with numbers above `after`. Delete those that ended before `before`, and those that
        ended and are not among the newest `keep`.

        Return the last number that was looked at, or None at the end, and how many were deleted. A change that holds is
        never deleted.
        """
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


def _decision_columns(row: DecisionRow) -> dict[str, Any]:
    values = asdict(row)
    return {"table_id": values.pop("table"), **values}


def _changed(row: sa.Row[Any]) -> DecisionChange:
    values = _fields(row)
    return DecisionChange(number=values.pop("number"), until=values.pop("until"), decision=DecisionRow(**values))
