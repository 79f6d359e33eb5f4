"""What a store on a database keeps about tables: decisions, standings, lock proofs, pauses and approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import ApprovalRow, DecisionRow, LockProofRow, StandingRow
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database
from lakewarden.service.store.sql.dialects import put

_Row = DecisionRow | StandingRow | ApprovalRow | LockProofRow


class SqlNotes(Database):
    """Keeps one row for each table, or for each service of it."""

    def decided(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions, each in place of the one before."""
        self._keep(schema.decisions, rows)

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        kept = schema.decisions.c
        query = sa.select(schema.decisions).where(kept.table_id == table).order_by(kept.service)
        with self._read() as connection:
            return [DecisionRow(**_fields(row)) for row in connection.execute(query)]

    def keep_standing(self, row: StandingRow) -> None:
        """Keep a standing in place of the one before."""
        self._keep(schema.standings, [row])

    def forget_standing(self, table: TableId, service: Service) -> None:
        """Drop a standing."""
        self._drop(schema.standings, table, service)

    def standings(self) -> Sequence[StandingRow]:
        """Return every standing."""
        with self._read() as connection:
            return [StandingRow(**_fields(row)) for row in connection.execute(sa.select(schema.standings))]

    def keep_lock_proof(self, row: LockProofRow) -> None:
        """Keep what was seen of a table's lock in place of the one before."""
        self._keep(schema.lock_proofs, [row])

    def lock_proofs(self) -> Sequence[LockProofRow]:
        """Return what was seen of the locks of all tables."""
        with self._read() as connection:
            return [LockProofRow(**_named(row)) for row in connection.execute(sa.select(schema.lock_proofs))]

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a question for approval, or its answer."""
        self._keep(schema.approvals, [row])

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Drop what was asked and approved."""
        self._drop(schema.approvals, table, service)

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every question for approval."""
        with self._read() as connection:
            return [ApprovalRow(**_fields(row)) for row in connection.execute(sa.select(schema.approvals))]

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or everything where `table` is None."""
        with self._write() as connection:
            row = {"table_id": table or schema.EVERYTHING, "reason": reason, "paused_at": at}
            put(connection, schema.pauses, [row])

    def resume(self, table: TableId | None) -> None:
        """End a pause."""
        with self._write() as connection:
            connection.execute(sa.delete(schema.pauses).where(schema.pauses.c.table_id == (table or schema.EVERYTHING)))

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason."""
        with self._read() as connection:
            rows = connection.execute(sa.select(schema.pauses)).all()
        return {(TableId(row.table_id) if row.table_id else None): row.reason for row in rows}

    def _keep(self, kept: sa.Table, rows: Sequence[_Row]) -> None:
        with self._write() as connection:
            put(connection, kept, [_columns(row) for row in rows])

    def _drop(self, kept: sa.Table, table: TableId, service: Service) -> None:
        with self._write() as connection:
            connection.execute(sa.delete(kept).where(kept.c.table_id == table, kept.c.service == service))


def _columns(row: _Row) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    return {"table_id": values.pop("table"), **values}


def _named(row: sa.Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    return {"table": TableId(values.pop("table_id")), **values}


def _fields(row: sa.Row[Any]) -> dict[str, Any]:
    return {**_named(row), "service": Service(row.service)}
