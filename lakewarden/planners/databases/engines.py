"""Engines for the databases of JDBC catalogs. They only read, and their waits are bounded."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol
from urllib.parse import parse_qsl

import sqlalchemy as sa

from lakewarden.planners.model.errors import PermanentError, installing
from lakewarden.planners.storage.settings import Secret


class JdbcDatabase(Protocol):
    """The settings of a catalog by which its database is reached. `uri` has the form of `JDBC_URIS`."""

    @property
    def uri(self) -> str:
        """Return the address."""
        ...

    @property
    def user(self) -> str | None:
        """Return the user."""
        ...

    @property
    def password(self) -> Secret | None:
        """Return the password."""
        ...

    @property
    def timeout(self) -> timedelta:
        """Return how long an answer may take."""
        ...

    @property
    def requests_at_once(self) -> int:
        """Return the most connections."""
        ...


def engine_of(name: str, settings: JdbcDatabase) -> sa.Engine:
    """Return an engine for the database of the catalog `name`, without a connection.

    Raises PermanentError if the driver is not installed, the address is wrong, or the secret is missing.
    """
    kind, _, address = settings.uri.removeprefix("jdbc:").partition(":")
    match kind:
        case "sqlite":
            return _sqlite(name, address, settings)
        case "postgresql":
            return _postgresql(name, address, settings)
        case _:
            return _mysql(name, address, settings)


def _sqlite(name: str, address: str, settings: JdbcDatabase) -> sa.Engine:
    """Return an engine that cannot write. It opens the file for each query, because the file may have been replaced."""
    path = address.removeprefix("file:").partition("?")[0]
    if not path.startswith("/"):
        raise PermanentError(f"catalogs.{name}.uri: an SQLite database needs an absolute path, not {path!r}")
    url = sa.URL.create("sqlite", database=f"file:{path}", query={"mode": "ro", "uri": "true"})
    waits = {"timeout": settings.timeout.total_seconds()}
    return sa.create_engine(url, poolclass=sa.NullPool, connect_args=waits)


def _postgresql(name: str, address: str, settings: JdbcDatabase) -> sa.Engine:
    try:
        from lakewarden.planners.databases.postgres import engine  # noqa: PLC0415 - the driver is an extra
    except ImportError as missing:
        raise PermanentError(
            f"the catalog {name} needs PostgreSQL's driver: {installing('postgres')} ({missing})"
        ) from missing
    return engine(
        _url(name, "postgresql+psycopg", address, settings),
        _query(address),
        timeout=settings.timeout,
        connections=settings.requests_at_once,
    )


def _mysql(name: str, address: str, settings: JdbcDatabase) -> sa.Engine:
    if importlib.util.find_spec("pymysql") is None:
        raise PermanentError(f"the catalog {name} needs the driver pymysql: pip install pymysql")
    seconds = settings.timeout.total_seconds()
    waits = {"connect_timeout": seconds, "read_timeout": seconds, "write_timeout": seconds}
    url = _url(name, "mysql+pymysql", address, settings)
    return sa.create_engine(url, pool_pre_ping=True, pool_size=settings.requests_at_once, connect_args=waits)


def _url(name: str, driver: str, address: str, settings: JdbcDatabase) -> sa.URL:
    """Return an address such as `//host:5432/catalog` in the spelling of SQLAlchemy. `catalog` alone is a database on
    this machine.
    """
    address = address.partition("?")[0]
    try:
        url = sa.make_url(f"{driver}:{address if address.startswith('//') else f'//localhost/{address}'}")
    except (sa.exc.ArgumentError, ValueError) as wrong:
        raise PermanentError(f"catalogs.{name}.uri: {address!r} does not have the form //host:port/database") from wrong
    password = None if settings.password is None else settings.password.value()
    return url.set(username=settings.user, password=password)


def _query(address: str) -> Mapping[str, str]:
    return dict(parse_qsl(address.partition("?")[2]))
