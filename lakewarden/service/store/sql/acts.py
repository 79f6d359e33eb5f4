"""The audit log in a store on a database, the registered tables, and the answers to requests that act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.acts import Act, ActKind
from lakewarden.service.model.configuring.registration import RegistrationRow
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database
from lakewarden.service.store.sql.dialects import put

_act = schema.acts.c
_registration = schema.registrations.c


class SqlActs(Database):
    """Keeps acts, and never changes one."""

    def note_act(self, act: Act) -> None:
        """Add an act."""
        with self._write() as connection:
            _note(connection, act)

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return acts, the newest first."""
        query = sa.select(schema.acts).order_by(_act.number.desc()).limit(limit)
        if table is not None:
            query = query.where(_act.table_id == table)
        if before is not None:
            query = query.where(_act.number < before)
        with self._read() as connection:
            return [_read(row) for row in connection.execute(query)]

    def forget_acts(self, *, before: datetime, most: int) -> int:
        """Delete up to `most` old acts."""
        old = sa.select(_act.number).where(_act.at < before).order_by(_act.number).limit(most)
        with self._write() as connection:
            numbers = connection.scalars(old).all()
            connection.execute(sa.delete(schema.acts).where(_act.number.in_(numbers)))
            return len(numbers)


def _read(row: sa.Row[Any]) -> Act:
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    table, service = values.pop("table_id"), values.pop("service")
    return Act(
        **{**values, "kind": ActKind(row.kind)},
        table=None if table is None else TableId(table),
        service=None if service is None else Service(service),
    )


def _note(connection: sa.Connection, act: Act) -> None:
    values = asdict(act)
    del values["number"]
    connection.execute(sa.insert(schema.acts).values(table_id=values.pop("table"), **values))


class SqlRegistrations(Database):
    """Keeps one row for each table that was ever registered over the API."""

    def keep_registration(self, row: RegistrationRow, *, act: Act) -> bool:
        """Keep a registration with its act."""
        newest = sa.select(sa.func.coalesce(sa.func.max(_registration.number), 0))
        with self._write() as connection:
            connection.execute(sa.select(schema.store.c.identity).with_for_update())  # one replica after the other
            if connection.scalar(newest) != row.number - 1:
                return False
            values = asdict(row)
            put(connection, schema.registrations, [{"table_id": values.pop("table"), **values}])
            _note(connection, act)
            return True

    def registrations(self, *, after: int = 0) -> Sequence[RegistrationRow]:
        """Return the registrations that were changed later."""
        query = sa.select(schema.registrations).where(_registration.number > after).order_by(_registration.number)
        with self._read() as connection:
            return [
                RegistrationRow(table=TableId(row.table_id), entry=row.entry, number=row.number, by=row.by, at=row.at)
                for row in connection.execute(query)
            ]
