"""The differences between SQLite and PostgreSQL: the time, the next number, the replacement of a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lakewarden.service.store.sql import schema


class _FromNow(FunctionElement[Any]):
    """The moment this many seconds after the present one of the database (not after the beginning of its
    transaction).
    """

    inherit_cache = True
    type = schema.UtcDateTime()


@compiles(_FromNow, "sqlite")
def _from_now_on_sqlite(element: _FromNow, compiler: SQLCompiler, **how: Any) -> str:
    # SQLAlchemy writes times with microseconds. The clock of SQLite has milliseconds.
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {compiler.process(element.clauses, **how)} || ' seconds')"


@compiles(_FromNow, "postgresql")
def _from_now_on_postgresql(element: _FromNow, compiler: SQLCompiler, **how: Any) -> str:
    return f"clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **how)})"


def from_now(after: timedelta = timedelta()) -> sa.ColumnElement[Any]:
    """Return the SQL for `after` from now, on the clock of the database."""
    return _FromNow(sa.bindparam(None, after.total_seconds(), type_=sa.Double()))


def next_number(connection: sa.Connection) -> sa.ColumnElement[int]:
    """Return the SQL for a number above those of all runs. On PostgreSQL, with many writers, a sequence has the
    numbers.
    """
    if connection.dialect.name == "postgresql":
        return sa.func.nextval("run_numbers")
    newest = sa.func.coalesce(sa.func.max(schema.runs.c.number), 0)
    return sa.select(newest + 1).scalar_subquery()


def insert(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insertion that can have a clause for an existing row."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def put(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows. A row replaces the one with the same primary key."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    # Two writers of the same rows lock them in the same order.
    rows = sorted(rows, key=lambda row: [row[key] for key in keys])
    connection.execute(_putting(connection.dialect.name, table, tuple(rows[0])), rows)


@cache
def _putting(dialect: str, table: sa.Table, names: Sequence[str]) -> sqlite.Insert | postgresql.Insert:
    """Return the statement of `put`. To build it takes longer than to execute it."""
    statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    keys = [column.name for column in table.primary_key]
    news = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=news)
