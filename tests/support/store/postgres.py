"""A PostgreSQL server for tests: its own process in its own folder, reached by a socket."""

from __future__ import annotations

import itertools
import os
import re
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would like XDG_RUNTIME_DIR to be set
    from pgserver.postgres_server import get_server

_DATABASES = itertools.count()
_STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*): (.*)")


class PostgresServer:
    """A running server."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._socket = server.get_postmaster_info().socket_dir

    @property
    def pid(self) -> int:
        """The server's first process."""
        return int(self._server.get_pid())

    @property
    def log(self) -> Path:
        """The file to which the server logs."""
        return Path(self._server.log)

    def log_statements(self) -> None:
        """Log every statement from now on, also those that begin and end a transaction."""
        self.execute("postgres", "ALTER SYSTEM SET log_statement = 'all'")
        self.execute("postgres", "SELECT pg_reload_conf()")
        while self.execute("postgres", "SHOW log_statement") != [("all",)]:
            time.sleep(0.05)

    @staticmethod
    def statements_in(lines: bytes) -> list[bytes]:
        """Return the statements in a part of the log."""
        return _STATEMENT.findall(lines)

    @property
    def socket(self) -> Path:
        """Where its clients on this machine connect."""
        return Path(self._socket) / ".s.PGSQL.5432"

    def make_database(self, *, like: str = "template1") -> str:
        """Make a database with what another one has, by default nothing, and return its url."""
        name = f"lakewarden_{os.getpid()}_{next(_DATABASES)}"
        self.execute("postgres", f"CREATE DATABASE {name} TEMPLATE {like}")
        return self.url(name)

    @staticmethod
    def name_of(url: str) -> str:
        """Return the name of the database at a url."""
        return urlsplit(url).path.strip("/")

    def url(self, database: str, *, user: str = "postgres") -> str:
        """Return a url as the configuration has it."""
        return f"postgresql://{user}@/{database}?host={self._socket}"

    def execute(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement as the server's owner, and return its rows: a reader that is not the code under test."""
        url = database if database.startswith("postgresql://") else self.url(database)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        """Stop the server at once, as a crash would: its clients are cut off."""
        if psutil.pid_exists(self.pid):
            process = psutil.Process(self.pid)
            process.send_signal(signal.SIGQUIT)
            process.wait(30)

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    @contextmanager
    def guarded_user(self, name: str, *, password: str) -> Iterator[Callable[[str], object]]:
        """Make a user who is asked for a password, within the bracket; yield what changes the password."""

        def set_password(text: str) -> object:
            return self.execute("postgres", f"ALTER ROLE {name} PASSWORD '{text}'")

        rules = Path(self._server.pgdata) / "pg_hba.conf"
        before = rules.read_text()
        self.execute("postgres", f"CREATE ROLE {name} LOGIN")
        set_password(password)
        rules.write_text(f"local all {name} scram-sha-256\n{before}")
        self.execute("postgres", "SELECT pg_reload_conf()")
        try:
            yield set_password
        finally:
            rules.write_text(before)
            self.execute("postgres", "SELECT pg_reload_conf()")
            self.execute("postgres", f"DROP ROLE {name}")


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server for as long as the bracket is open, in a folder of its own: not below pytest's, which belong to one
    user only, while the server is not root's.
    """
    with tempfile.TemporaryDirectory(prefix="lakewarden-postgres-") as folder:
        server = get_server(folder, cleanup_mode="stop")
        postgres = PostgresServer(server)
        postgres.execute("postgres", "ALTER SYSTEM SET fsync = off")  # for speed: no test cuts the power
        postgres.execute("postgres", "SELECT pg_reload_conf()")
        try:
            yield postgres
        finally:
            postgres.stop()
            server.cleanup()
