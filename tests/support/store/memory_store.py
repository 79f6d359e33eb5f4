"""A store in memory: SQLite without a file. The clock of its database is a given one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from functools import cache

import sqlalchemy as sa

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.service.store.sql.database import migrate
from lakewarden.service.store.sql.store import Store


class MemoryStore(Store):
    """The store of one test. All threads share its one connection, one transaction after another."""

    def __init__(self, clock: Clock | None = None) -> None:
        engine = _engine(_new_connection(clock or SystemClock()))
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE store SET identity = lower(hex(randomblob(16)))")
        super().__init__(engine, name="memory", timeout=timedelta(seconds=5))


def _new_connection(clock: Clock) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.isolation_level = None
        connection.deserialize(_schema())
        connection.create_function("strftime", 3, lambda _format, _now, after: _moment(clock, after))
        return connection

    return connect


def _moment(clock: Clock, after: str) -> str:
    at = clock.now() + timedelta(seconds=float(after.removesuffix(" seconds")))
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")


def _engine(connect: Callable[[], sqlite3.Connection]) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=1, max_overflow=0)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


@cache
def _schema() -> bytes:
    """Return a database with the schema. To create it takes longer than many a test."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.isolation_level = None
    migrate(_engine(lambda: connection), name="memory", elsewhere="do not")
    return connection.serialize()
