"""The store in a PostgreSQL database. Several replicas can use it at the same time."""

from __future__ import annotations

import math
import select
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.postgres_connection import BoundedConnection
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.database import migrate
from lakewarden.service.store.sql.errors import translated
from lakewarden.service.store.sql.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long a connection waits: to be made, for a lock, for a statement, and for any answer.

    The limits of the server hold only while the server runs. `answer` is the limit for a server that is frozen or out
    of reach. `idle` is how long the server waits, while our locks are held, for the next statement of a transaction.
    """

    connect: timedelta = timedelta(seconds=5)
    lock: timedelta = timedelta(seconds=5)
    statement: timedelta = timedelta(seconds=5)
    answer: timedelta = timedelta(seconds=8)
    idle: timedelta = timedelta(seconds=15)


_RENEWING = Timeouts(
    connect=timedelta(seconds=2),
    lock=timedelta(seconds=1),
    statement=timedelta(seconds=2),
    answer=timedelta(seconds=2),
)
"""A renewal that takes longer has failed, and is tried again."""

_MIGRATING = Timeouts(
    lock=timedelta(minutes=1), statement=timedelta(minutes=10), answer=timedelta(minutes=10, seconds=5)
)
"""A step of the schema may rewrite a large table, and another replica may be changing the schema."""

_FRESH_SECONDS = 5.0
"""A connection that was used less long ago, and that its server has not closed, is not asked first whether it lives."""

_USED_AT = "used_at"

_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


def open_postgres(settings: DatabaseSettings, *, timeouts: Timeouts = Timeouts()) -> Store:
    """Open the store in an existing PostgreSQL database. Create or upgrade its schema.

    Raises PermanentError if the schema is newer than this Lakewarden, if the server refuses the connection, or if the
    encoding of the database is not UTF8. Raises TemporaryError if the server cannot be reached.
    """
    name = settings.url or ""
    url = sa.make_url(name).set(drivername="postgresql+psycopg")
    migrating = _engine(url, settings, _MIGRATING, pool_size=1, max_overflow=0)
    try:
        with translated(name):
            migrate(migrating, name=name, elsewhere="point database.url elsewhere")
    finally:
        migrating.dispose()
    working = _engine(url, settings, timeouts, pool_size=5, max_overflow=5)
    renewing = _engine(url, settings, _RENEWING, pool_size=1, max_overflow=0)
    return Store(
        working,
        name=name,
        timeout=timeouts.answer,
        renewing=renewing.execution_options(isolation_level="AUTOCOMMIT"),
        single=working.execution_options(isolation_level="AUTOCOMMIT"),
    )


def _engine(
    url: sa.URL, settings: DatabaseSettings, timeouts: Timeouts, *, pool_size: int, max_overflow: int
) -> sa.Engine:
    engine = sa.create_engine(
        url,
        isolation_level="READ COMMITTED",  # after the wait for a lock a transaction sees what was written meanwhile
        pool_use_lifo=True,  # so that few connections are used, and seldom need to be asked whether they live
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=timeouts.answer.total_seconds(),
        connect_args={
            "application_name": "lakewarden",
            "connect_timeout": round(timeouts.connect.total_seconds()),
            "prepare_threshold": None,  # a pooler between us and the server need not support prepared statements
            **_KEEPALIVES,
        },
    )

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> _Connection:
        if settings.password is not None:
            named["password"] = settings.password.value()
        connection = _Connection.connect(*arguments, **named)
        _check_encoding(connection, settings.url or "")
        connection.answer_within = timeouts.answer
        with connection.transaction():
            for setting, limit in (
                ("statement_timeout", timeouts.statement),
                ("lock_timeout", timeouts.lock),
                ("idle_in_transaction_session_timeout", timeouts.idle),
            ):
                connection.execute("SELECT set_config(%s, %s, false)", (setting, f"{limit.total_seconds() * 1000:.0f}"))
        return connection

    @sa.event.listens_for(engine, "checkin")
    def checkin(_connection: Any, record: sa.pool.ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @sa.event.listens_for(engine, "checkout")
    def checkout(connection: Any, record: sa.pool.ConnectionPoolEntry, _proxy: Any) -> None:
        fresh = time.monotonic() - record.info.get(_USED_AT, -math.inf) < _FRESH_SECONDS
        if fresh and not _has_news(connection):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.DisconnectionError(str(error)) from error  # the pool makes another connection

    return engine


def _has_news(connection: _Connection) -> bool:
    """Return whether the server has sent something unasked, as it does when it closes a connection."""
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(socket.poll(0))


def _check_encoding(connection: _Connection, name: str) -> None:
    """Raise PermanentError if the database cannot keep every name of a table. SQL_ASCII returns bytes, not text."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise PermanentError(
            f"the database {name} has the encoding {encoding}, and Lakewarden needs UTF8: make another one with "
            "CREATE DATABASE lakewarden OWNER lakewarden ENCODING 'UTF8' TEMPLATE template0"
        )


class _Connection(BoundedConnection):
    answer_within = timedelta(seconds=15)
