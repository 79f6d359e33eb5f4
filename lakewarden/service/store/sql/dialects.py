"""What SQLite and PostgreSQL say in different words: the time, the next number, how to replace a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lakewarden.service.store.sql import schema


class _FromNow(FunctionElement[Any]):
    """The moment that is so many seconds after the database's present one (not after its transaction began)."""

    inherit_cache = True
    type = schema.UtcDateTime()


@compiles(_FromNow, "sqlite")
def _from_now_on_sqlite(element: _FromNow, compiler: SQLCompiler, **how: Any) -> str:
    # As SQLAlchemy writes times: to the microsecond, of which SQLite's clock knows thousands.
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {compiler.process(element.clauses, **how)} || ' seconds')"


@compiles(_FromNow, "postgresql")
def _from_now_on_postgresql(element: _FromNow, compiler: SQLCompiler, **how: Any) -> str:
    return f"clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **how)})"


def from_now(after: timedelta = timedelta()) -> sa.ColumnElement[Any]:
    """Return the SQL for `after` from now, on the database's clock."""
    return _FromNow(sa.bindparam(None, after.total_seconds(), type_=sa.Double()))


def next_number(connection: sa.Connection) -> sa.ColumnElement[int]:
    """Return the SQL for a number above that of every run so far. Where many write at once, a sequence has them."""
    if connection.dialect.name == "postgresql":
        return sa.func.nextval("run_numbers")
    newest = sa.func.coalesce(sa.func.max(schema.runs.c.number), 0)
    return sa.select(newest + 1).scalar_subquery()


def insert(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insertion that can be told what to do about a row that is there already."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def put(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each in place of the one with the same primary key."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    # Two writers of the same rows lock them in the same order.
    rows = sorted(rows, key=lambda row: [row[key] for key in keys])
    statement = insert(connection, table)
    news = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=news), rows)
