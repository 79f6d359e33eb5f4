"""Connections to the PostgreSQL database of a JDBC catalog. They only read, and their waits are bounded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.postgres_connection import BoundedConnection

_SAME_IN_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "options")
"""Parameters of the JDBC driver that have the same meaning in libpq. The parameters about writing or caching are
ignored."""


def engine(url: sa.URL, query: Mapping[str, str], *, timeout: timedelta, connections: int) -> sa.Engine:
    """Return an engine for the database at `url`. `query` are the parameters of the JDBC address. An answer may take
    `timeout`.
    """
    arguments: dict[str, Any] = {key: value for key, value in query.items() if key in _SAME_IN_LIBPQ}
    if query.get("ssl", "false") != "false":
        arguments.setdefault("sslmode", "verify-full")
    if "currentSchema" in query:
        arguments["options"] = f"{arguments.get('options', '')} -c search_path={query['currentSchema']}".strip()
    made = sa.create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_pre_ping=True,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=timeout.total_seconds(),
        connect_args={
            "application_name": "lakewarden",
            "connect_timeout": max(2, round(timeout.total_seconds())),  # libpq takes less than 2 for 2
            "prepare_threshold": None,  # a pooler in between need not know prepared statements
            **arguments,
        },
    )

    @sa.event.listens_for(made, "do_connect")
    def connect(_dialect: Any, _record: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> _Connection:
        connection = _Connection.connect(*positional, **named)
        connection.answer_within = timeout
        connection.read_only = True
        return connection

    return made


class _Connection(BoundedConnection):
    answer_within = timedelta(seconds=10)
