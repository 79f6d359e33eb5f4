"""A database for the parts of the store: transactions that read, transactions that write, and translated errors."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import alembic.command
import alembic.config
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.errors import AwayError, translated

REST = timedelta(seconds=2)
"""If one call to the database times out, other calls fail at once for this long at most, because a turn of the control
thread makes many calls.
"""


class _Queue:
    """Calls that wait for the same thing. If one of them times out, the others fail at once. For any thread."""

    def __init__(self, rest: timedelta) -> None:
        self._rest = rest.total_seconds()
        self._until = float("-inf")
        self._error = ""

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait inside the `with` block. If another call has just timed out, raise its error at once."""
        begun = time.monotonic()
        if begun < self._until:
            raise AwayError(self._error)
        try:
            yield
        except AwayError as error:
            now = time.monotonic()
            if now - begun >= self._rest:
                self._error, self._until = str(error), now + self._rest
            raise


class Database:
    """A database, with the name that its errors use."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        name: str,
        timeout: timedelta,
        renewing: sa.Engine | None = None,
        single: sa.Engine | None = None,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """`timeout` is how long a call waits for the database.

        `renewing` has a connection of its own, so leases are renewed even if other calls wait. `single` begins no
        transactions: where each statement sees the newest data anyway, one that reads or stands alone needs none, and
        an idle fleet asks a third as much. `require` raises
        AwayError if what is written now would be lost. It is asked before and after each writing transaction.
        """
        self.name = name
        self._require = require
        self._engine = engine
        self._renewing = renewing or engine
        self._single = single or engine
        self._write_error: str | None = None
        rest = min(REST, timeout / 2)
        self._reading, self._writing = _Queue(rest), _Queue(rest)  # a file that is locked can still be read

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()
        self._renewing.dispose()

    @property
    def write_error(self) -> str | None:
        """Why the last thing that was to be kept could not be written. None if it was. Any thread may ask."""
        return self._write_error

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._reading.patiently(), translated(self.name), self._single.begin() as connection:
            yield connection

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._writing_by(self._engine)

    def _write_one(self) -> AbstractContextManager[sa.Connection]:
        """Open a connection for one statement that writes."""
        return self._writing_by(self._single)

    @contextmanager
    def _writing_by(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        writing = engine.execution_options(writing=True)
        try:
            self._require()
            with self._writing.patiently(), translated(self.name), writing.begin() as connection:
                yield connection
            self._require()
        except AwayError as error:
            self._write_error = str(error)
            raise
        self._write_error = None

    @contextmanager
    def _renew(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._renewing.execution_options(writing=True).begin() as connection:
            yield connection


# The differences between SQLite and PostgreSQL: the time, the next number, the replacement of a row.


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


# The schema: a new store is created in one transaction, and an older one is upgraded step by step. Each step is one
# transaction, so an interrupted upgrade can go on.

_ONE_AT_A_TIME = int.from_bytes(b"lakeward")
"""The key of the advisory lock of PostgreSQL for changes of the schema."""


def migrate(engine: sa.Engine, *, name: str, elsewhere: str) -> None:
    """Create the schema, or upgrade it to the version of this code. If several replicas start, one does it, and the
    others wait.

    Raises PermanentError if the schema is newer than this code. The error names the store, and what to do `elsewhere`.
    """
    config = _config()
    script = ScriptDirectory.from_config(config)
    while True:
        with engine.execution_options(writing=True).begin() as connection:
            _wait_for_the_others(connection)
            current = MigrationContext.configure(connection).get_current_revision()
            if current == script.get_current_head():
                return
            if current is not None:
                check_known(current, name=name, elsewhere=f"{elsewhere}, or restore its last backup")
            config.attributes["connection"] = connection
            try:
                if current is None:
                    _create(connection)
                    alembic.command.stamp(config, "head")
                else:
                    alembic.command.upgrade(config, "+1")
            except sa.exc.DBAPIError as error:
                if not _of_another_program(error):
                    raise
                raise PermanentError(
                    f"the store {name} has tables of another program, or was changed by one ({error.orig}): {elsewhere}"
                ) from error


def check_known(schema: str, *, name: str, elsewhere: str) -> None:
    """Raise PermanentError if a schema is newer than this code."""
    steps = ScriptDirectory.from_config(_config()).walk_revisions()
    if schema not in {step.revision for step in steps}:
        raise PermanentError(
            f"the store {name} was written by a newer Lakewarden (schema {schema}): run that version, or {elsewhere}"
        )


def _create(connection: sa.Connection) -> None:
    """Create all tables, and the identity of the store."""
    schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(schema.store).values(identity=uuid.uuid4().hex))
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("CREATE SEQUENCE run_numbers OWNED BY runs.number"))


def _config() -> alembic.config.Config:
    config = alembic.config.Config()
    config.set_main_option("script_location", "lakewarden.service.store.sql:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _wait_for_the_others(connection: sa.Connection) -> None:
    """Lock the schema until the transaction ends. On SQLite, BEGIN IMMEDIATE has locked it already."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))


def _of_another_program(error: sa.exc.DBAPIError) -> bool:
    """Whether it met a table or a column that it did not expect."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return str(getattr(error.orig, "sqlstate", None)).startswith(("42P", "427"))  # undefined or duplicate objects
