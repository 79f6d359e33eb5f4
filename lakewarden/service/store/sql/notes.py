"""The rows about tables in a store on a database: decisions, service states, lock proofs, pauses and approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

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
_DECISIONS = sa.select(schema.decisions).where(_kept.table_id == sa.bindparam("table")).order_by(_kept.service)

_Row = DecisionRow | ServiceStateRow | ApprovalRow | RewriteRow | LockProofRow | WriterSignsRow | FolderRow


class SqlNotes(Database):
    """Keeps one row for each table, or for each service of it."""

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        with self._read() as connection:
            return [DecisionRow(**_fields(row)) for row in connection.execute(_DECISIONS, {"table": table})]

    def keep_service_state(self, row: ServiceStateRow) -> None:
        """Keep the state of a service, and replace the previous one."""
        self._keep(schema.service_states, [row])

    def forget_service_state(self, table: TableId, service: Service) -> None:
        """Delete the state of a service, if there is one."""
        self._drop(schema.service_states, table, service)

    def service_states(self) -> Sequence[ServiceStateRow]:
        """Return the state of every service."""
        with self._read() as connection:
            return [ServiceStateRow(**_fields(row)) for row in connection.execute(sa.select(schema.service_states))]

    def keep_lock_proof(self, row: LockProofRow) -> None:
        """Keep the evidence about the lock of a table, and replace the previous one."""
        self._keep(schema.lock_proofs, [row])

    def lock_proofs(self) -> Sequence[LockProofRow]:
        """Return the evidence about the locks of all tables."""
        with self._read() as connection:
            return [LockProofRow(**_named(row)) for row in connection.execute(sa.select(schema.lock_proofs))]

    def keep_writer_signs(self, row: WriterSignsRow) -> None:
        """Keep the signs of the writers of a table, and replace the previous ones."""
        self._keep(schema.writer_signs, [row])

    def writer_signs(self) -> Sequence[WriterSignsRow]:
        """Return the signs of the writers of all tables."""
        with self._read() as connection:
            return [WriterSignsRow(**_named(row)) for row in connection.execute(sa.select(schema.writer_signs))]

    def keep_folder(self, row: FolderRow) -> None:
        """Keep the folder of a table in a catalog, and replace the previous one."""
        self._keep(schema.folders, [row])

    def folders(self, *, folder: str | None = None) -> Sequence[FolderRow]:
        """Return the folders of all tables in catalogs, or the tables in one folder."""
        query = sa.select(schema.folders)
        with self._read() as connection:
            rows = connection.execute(query if folder is None else query.where(schema.folders.c.folder == folder))
            return [FolderRow(**_named(row)) for row in rows]

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a request for approval, or the approval, and replace the previous one of the same table and service."""
        self._keep(schema.approvals, [row])

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Delete a request for approval and the approval, if there are any."""
        self._drop(schema.approvals, table, service)

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every request for approval, approved or not."""
        with self._read() as connection:
            return [ApprovalRow(**_fields(row)) for row in connection.execute(sa.select(schema.approvals))]

    def keep_rewrite(self, row: RewriteRow) -> None:
        """Keep a rewrite of all files that was asked for, and replace the previous one of the same table and
        service.
        """
        self._keep(schema.rewrites, [row])

    def forget_rewrite(self, table: TableId, service: Service) -> None:
        """Delete a rewrite of all files, if there is one."""
        self._drop(schema.rewrites, table, service)

    def rewrites(self) -> Sequence[RewriteRow]:
        """Return every rewrite of all files that was asked for and has not ended."""
        with self._read() as connection:
            return [RewriteRow(**_fields(row)) for row in connection.execute(sa.select(schema.rewrites))]

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
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    return {"table": TableId(values.pop("table_id")), **values}


def _fields(row: sa.Row[Any]) -> dict[str, Any]:
    return {**_named(row), "service": Service(row.service)}


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
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    number, until = values.pop("number"), values.pop("until")
    table, service = TableId(values.pop("table_id")), Service(values.pop("service"))
    return DecisionChange(number=number, until=until, decision=DecisionRow(table=table, service=service, **values))
