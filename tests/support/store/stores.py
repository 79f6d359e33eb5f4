"""Empty stores whose schema is made once for all tests, and copied: how a schema is made is tested by itself."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import PostgresServer


def new_sqlite(path: Path) -> Store:
    """Open a new store in a file that is not there yet."""
    path.write_bytes(_sqlite_file())
    return open_sqlite(path)


def new_postgres(server: PostgresServer) -> DatabaseSettings:
    """Return the settings of a new store in a database of its own."""
    return DatabaseSettings(url=server.make_database(like=_postgres_database(server)))


@contextmanager
def lent_postgres(server: PostgresServer) -> Iterator[DatabaseSettings]:
    """Lend the settings of an empty store. Its database is emptied afterwards, and lent again.

    PostgreSQL takes 130 ms to copy a database. The 30,000 files of a hundred databases are deleted in 20 s.
    """
    unused = _unused_databases(server)
    settings = unused.pop() if unused else new_postgres(server)
    yield settings
    assert settings.url is not None
    rows = [table.name for table in schema.metadata.sorted_tables if table.name != schema.store.name]
    server.execute(settings.url, ";".join(f"DELETE FROM {name}" for name in reversed(rows)))
    server.execute(settings.url, "ALTER SEQUENCE run_numbers RESTART")
    unused.append(settings)


@functools.cache
def _unused_databases(_: PostgresServer) -> list[DatabaseSettings]:
    return []


@functools.cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory(prefix="lakewarden-store-") as folder:
        path = Path(folder, "lakewarden.db")
        open_sqlite(path).close()
        return path.read_bytes()


@functools.cache
def _postgres_database(server: PostgresServer) -> str:
    """Return the name of a database that nobody is connected to, as what is copied has to be."""
    url = server.make_database()
    open_postgres(DatabaseSettings(url=url)).close()
    return server.name_of(url)
