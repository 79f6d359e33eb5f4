"""The store in a SQLite file, for one daemon."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.service.store.sql.database import migrate
from lakewarden.service.store.sql.errors import AwayError, translated
from lakewarden.service.store.sql.store import Store

_PRIVATE = 0o600


def open_sqlite(path: Path, *, timeout: timedelta = timedelta(seconds=5)) -> Store:
    """Open the store in a SQLite file. Create or upgrade it.

    It uses a write-ahead log with full synchronisation, so a committed transaction survives a power cut. A writer waits
    for another one, no longer than `timeout`. Raises PermanentError if the file was written by a newer Lakewarden, is
    damaged or no SQLite database, or cannot be created.
    """
    _keep_private(path)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": timeout.total_seconds()}
    )
    sa.event.listen(engine, "connect", _configure_connection)
    sa.event.listen(engine, "begin", _begin)
    try:
        with translated(str(path)):
            migrate(engine, name=str(path), elsewhere="point data_dir elsewhere")
    except LakewardenError as error:
        engine.dispose()
        raise PermanentError(f"the store {path} cannot be opened: {error}") from error
    return Store(engine, name=str(path), timeout=timeout, require=_SameFile(path))


def _keep_private(path: Path) -> None:
    """Make the file of a store, and its log, readable by its owner alone. It has the hashes of keys and the audit log.

    SQLite gives its log the mode of the file.
    """
    with suppress(OSError):  # the folder is not there, or another user owns the file: opening it tells
        path.touch(mode=_PRIVATE)
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):
            if stat.S_IMODE(file.stat().st_mode) & ~_PRIVATE:
                file.chmod(_PRIVATE)


class _SameFile:
    """Raises AwayError if the file of the store is not that which is open. SQLite would go on in a deleted file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = path.stat()

    def __call__(self) -> None:
        try:
            there = os.path.samestat(self._path.stat(), self._opened)
        except OSError:
            there = False
        if not there:
            sentence = (
                f"the store {self._path} was moved away or replaced under the daemon, so nothing is written to it"
            )
            raise AwayError(f"{sentence}: stop the daemon, put the file back, and start the daemon again")


def _configure_connection(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the `begin` event of SQLAlchemy decides how a transaction begins
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
