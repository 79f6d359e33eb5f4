"""`lakewarden backup` and `lakewarden restore`: the store, as one file."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.service.config.loading import load
from lakewarden.service.ownership.data_folder import DataFolder
from lakewarden.service.store.opening import file_of
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.database import check_known

_SECONDS = 3600.0


def back_up(target: Path, *, config: Path, out: TextIO) -> int:
    """Write the store of a configuration to a file, while the daemon runs. Return 0.

    Raises PermanentError if the file is there already, or if the copy is not whole.
    """
    configuration = load(config)
    if target.exists():
        raise PermanentError(f"{target} already exists and is not overwritten: name another file")
    with _made(target) as made:
        if configuration.settings.database.url is not None:
            summary = _dump(configuration.settings.database, made)
        else:
            summary = _copied(file_of(configuration.data_dir), made)
    print(f"{printable(str(target))}: {summary}", file=out)
    return 0


def restore(source: Path, *, config: Path, out: TextIO) -> int:
    """Put a backup in the place of the store of a configuration. Return 0. What was there stays beside it.

    Raises PermanentError if a daemon has the store, if the backup is damaged or of a newer Lakewarden, or if the store
    is a PostgreSQL database.
    """
    configuration = load(config)
    if (url := configuration.settings.database.url) is not None:
        command = f"pg_restore --clean --if-exists --single-transaction --no-owner --dbname {url} {source}"
        raise PermanentError(f"the store is {url}: stop every daemon on it, and then run {command}")
    folder = DataFolder(configuration.data_dir)
    try:
        store = file_of(configuration.data_dir)
        made = store.with_name(f"{store.name}.restoring")
        made.unlink(missing_ok=True)
        try:
            summary = _copied(source, made)
            kept = _kept_aside(store)
            made.replace(store)
        finally:
            made.unlink(missing_ok=True)
        _synchronise(store.parent)
    finally:
        folder.release()
    print(f"{printable(str(store))}: {summary}, from {printable(str(source))}", file=out)
    if kept is not None:
        print(f"What was there before is {printable(str(kept))}", file=out)
    return 0


@contextmanager
def _made(target: Path) -> Iterator[Path]:
    """Return a new file that only its owner may read. It gets its name if the block ends well."""
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        made.touch(mode=0o600, exist_ok=False)
        yield made
        _synchronise(made)
        os.link(made, target)  # unlike a rename, it replaces no file
        _synchronise(target.parent)
    except FileExistsError:
        raise PermanentError(f"{target} already exists and is not overwritten: name another file") from None
    except OSError as error:
        raise PermanentError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)


def _copied(source: Path, target: Path) -> str:
    """Copy a SQLite store as it is at one moment, prove the copy, and return what is in it."""
    if not source.is_file():
        raise PermanentError(f"there is no store {source}")
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True)) as store,
            closing(sqlite3.connect(target)) as copy,
        ):
            store.backup(copy)  # whole: in one transaction that reads, beside which others write
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            verdicts = [row[0] for row in copy.execute("PRAGMA integrity_check").fetchall()]
            if verdicts != ["ok"]:
                raise PermanentError(f"the store {source} is damaged: {verdicts[0]}")
            (schema,) = copy.execute("SELECT version_num FROM alembic_version").fetchone()
            (runs,) = copy.execute("SELECT count(*) FROM runs").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise PermanentError(f"{source} is not a store that can be copied: {error}") from error
    check_known(str(schema), name=str(source), elsewhere="take an older backup")
    target.chmod(0o600)
    _synchronise(target)
    return f"{runs} runs, schema {schema}"


def _kept_aside(store: Path) -> Path | None:
    """Keep the store that is there under another name, and leave no log that SQLite would add to the next one."""
    if not store.exists():
        return None
    try:
        with closing(sqlite3.connect(store)) as old:
            old.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:  # it is damaged, and may be why it is replaced
        pass
    kept = store.with_name(f"{store.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    for log in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            store.with_name(store.name + log).rename(kept.with_name(kept.name + log))
    os.link(store, kept)
    return kept


def _dump(database: DatabaseSettings, target: Path) -> str:
    """Have `pg_dump` write a PostgreSQL store, and `pg_restore` read what it wrote."""
    url = database.url or ""
    command = ["pg_dump", "--format=custom", "--no-owner", "--file", str(target), "--dbname", url]
    if shutil.which("pg_dump") is None:
        raise PermanentError(f"PostgreSQL's client tools are not installed: install them, or run {shlex.join(command)}")
    password = {} if database.password is None else {"PGPASSWORD": database.password.value()}
    _ran(command, {**os.environ, "PGCONNECT_TIMEOUT": "10", **password})
    listed = _ran(["pg_restore", "--list", str(target)], {**os.environ})
    if " TABLE DATA public runs " not in listed:
        raise PermanentError(f"{url} has no table of runs: is it the store?")
    return f"{listed.count(' TABLE DATA ')} tables"


def _ran(command: list[str], environment: dict[str, str]) -> str:
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired as late:
        raise TemporaryError(f"{command[0]} has not ended within an hour") from late
    if ended.returncode != 0:
        raise PermanentError(f"{command[0]}: {ended.stderr.strip() or f'exit code {ended.returncode}'}")
    return ended.stdout


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
