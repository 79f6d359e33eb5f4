"""The store in a SQLite file: one daemon's."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.service.store.sql.migrating import migrate
from lakewarden.service.store.sql.store import SqlStore
from lakewarden.service.store.sql.trouble import translated


def open_sqlite(path: Path, *, patience: timedelta = timedelta(seconds=5)) -> SqlStore:
    """Open the store in a SQLite file, making or upgrading it.

    Write-ahead log with full synchronisation: what is acknowledged survives a power cut. A writer that finds another
    one waits for it, no longer than `patience`. Raises PermanentError if the file was written by a newer Lakewarden, is
    damaged or no SQLite database, or cannot be made.
    """
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": patience.total_seconds()}
    )
    sa.event.listen(engine, "connect", _configure_connection)
    sa.event.listen(engine, "begin", _begin)
    try:
        with translated(str(path)):
            migrate(engine, name=str(path), elsewhere="point data_dir elsewhere")
    except LakewardenError as trouble:
        engine.dispose()
        raise PermanentError(f"the store {path} cannot be opened: {trouble}") from trouble
    return SqlStore(engine, name=str(path), patience=patience)


def _configure_connection(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy's `begin` event decides how a transaction begins
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
