"""Connections to the PostgreSQL database of a JDBC catalog: they only read, and do not wait for ever."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog

_Answer = TypeVar("_Answer")
_SAME_IN_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "options")
"""Parameters of the JDBC driver that mean the same here; those that are about writing or caching mean nothing."""


def engine(url: sa.URL, query: Mapping[str, str], settings: JdbcCatalog) -> sa.Engine:
    """Return an engine for the database at `url`; `query` are the parameters of the JDBC address."""
    arguments: dict[str, Any] = {key: value for key, value in query.items() if key in _SAME_IN_LIBPQ}
    if query.get("ssl", "false") != "false":
        arguments.setdefault("sslmode", "verify-full")
    if "currentSchema" in query:
        arguments["options"] = f"{arguments.get('options', '')} -c search_path={query['currentSchema']}".strip()
    made = sa.create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_pre_ping=True,
        pool_size=settings.requests_at_once,
        max_overflow=0,
        pool_timeout=settings.timeout.total_seconds(),
        connect_args={
            "application_name": "lakewarden",
            "connect_timeout": max(2, round(settings.timeout.total_seconds())),  # libpq takes less for two
            "prepare_threshold": None,  # a pooler between us and the server need not know of prepared statements
            **arguments,
        },
    )

    @sa.event.listens_for(made, "do_connect")
    def connect(_dialect: Any, _record: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> _Connection:
        connection = _Connection.connect(*positional, **named)
        connection.patience = settings.timeout
        connection.read_only = True
        return connection

    return made


class _Connection(psycopg.Connection[Any]):
    """A connection that is closed where an answer does not come in time: late, it would be one to another question."""

    patience = timedelta(seconds=10)

    def wait(self, gen: PQGen[_Answer], interval: float = 0.1, timeout: float | None = None) -> _Answer:
        try:
            return super().wait(gen, interval, timeout or self.patience.total_seconds())
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise
