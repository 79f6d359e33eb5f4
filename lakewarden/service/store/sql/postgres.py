"""The store in a PostgreSQL database: several replicas' at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.migrating import migrate
from lakewarden.service.store.sql.store import SqlStore
from lakewarden.service.store.sql.trouble import translated

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long a connection waits: to be made, for somebody else's lock, for a statement, and for any answer at all.

    A server keeps its own times only while it runs: `answer` holds against one that is frozen, or out of reach. `idle`
    is how long the server waits in turn, with our locks held, for a transaction of ours to go on.
    """

    connect: timedelta = timedelta(seconds=5)
    lock: timedelta = timedelta(seconds=5)
    statement: timedelta = timedelta(seconds=5)
    answer: timedelta = timedelta(seconds=8)
    idle: timedelta = timedelta(seconds=15)


_RENEWING = Patience(
    connect=timedelta(seconds=2),
    lock=timedelta(seconds=1),
    statement=timedelta(seconds=2),
    answer=timedelta(seconds=2),
)
"""A renewal that takes longer than this has failed, and is asked for anew."""

_MIGRATING = Patience(
    lock=timedelta(minutes=1), statement=timedelta(minutes=10), answer=timedelta(minutes=10, seconds=5)
)
"""A step of the schema may rewrite a large table, and another replica may be at it."""

_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


def open_postgres(settings: DatabaseSettings, *, patience: Patience = Patience()) -> SqlStore:
    """Open the store in a PostgreSQL database that is there, making or upgrading its schema.

    Raises PermanentError if the schema is a newer Lakewarden's, or the server does not let us in; TemporaryError if it
    cannot be reached.
    """
    name = settings.url or ""
    url = sa.make_url(name).set(drivername="postgresql+psycopg")
    migrating = _engine(url, settings, _MIGRATING, pool_size=1, max_overflow=0)
    try:
        with translated(name):
            migrate(migrating, name=name, elsewhere="point database.url elsewhere")
    finally:
        migrating.dispose()
    working = _engine(url, settings, patience, pool_size=5, max_overflow=5)
    renewing = _engine(url, settings, _RENEWING, pool_size=1, max_overflow=0)
    return SqlStore(
        working, name=name, patience=patience.answer, renewing=renewing.execution_options(isolation_level="AUTOCOMMIT")
    )


def _engine(
    url: sa.URL, settings: DatabaseSettings, patience: Patience, *, pool_size: int, max_overflow: int
) -> sa.Engine:
    engine = sa.create_engine(
        url,
        isolation_level="READ COMMITTED",  # whoever has waited for a lock sees what was written meanwhile
        pool_pre_ping=True,
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=patience.answer.total_seconds(),
        connect_args={
            "application_name": "lakewarden",
            "connect_timeout": round(patience.connect.total_seconds()),
            "prepare_threshold": None,  # a pooler between us and the server need not know of prepared statements
            **_KEEPALIVES,
        },
    )

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> _Connection:
        if settings.password is not None:
            named["password"] = settings.password.value()
        connection = _Connection.connect(*arguments, **named)
        connection.patience = patience.answer
        with connection.transaction():
            for setting, limit in (
                ("statement_timeout", patience.statement),
                ("lock_timeout", patience.lock),
                ("idle_in_transaction_session_timeout", patience.idle),
            ):
                connection.execute("SELECT set_config(%s, %s, false)", (setting, f"{limit.total_seconds() * 1000:.0f}"))
        return connection

    return engine


class _Connection(psycopg.Connection[Any]):
    """A connection that does not wait for ever."""

    patience = timedelta(seconds=15)

    def wait(self, gen: PQGen[_Answer], interval: float = 0.1, timeout: float | None = None) -> _Answer:
        """Wait for an answer. Without one the connection is closed: a late answer is not one to the next question."""
        try:
            return super().wait(gen, interval, timeout or self.patience.total_seconds())
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise
