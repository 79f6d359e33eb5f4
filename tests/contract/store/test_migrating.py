"""The schema is created as a whole. If that is interrupted, runs twice, or meets a newer store, nothing is
lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import PostgresServer
from tests.support.store.replicas import take_ownership
from tests.support.values import NOW, a_run

KILLED_IN_THE_MIDDLE = """
import os, sys
from pathlib import Path
import sqlalchemy as sa
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings

@sa.event.listens_for(sa.Engine, "after_cursor_execute")
def die(connection, cursor, statement, *_):
    if sys.argv[3] in statement:
        os._exit(9)

open_store(DatabaseSettings(url=sys.argv[1] or None), data_dir=Path(sys.argv[2]))
"""
OPEN = KILLED_IN_THE_MIDDLE.split("@", maxsplit=1)[0] + KILLED_IN_THE_MIDDLE.rpartition("\n\n")[2]


@dataclass(frozen=True, kw_only=True)
class Place:
    """An empty database, and its address."""

    url: str | None
    folder: Path

    def open(self) -> Store:
        return open_store(DatabaseSettings(url=self.url), data_dir=self.folder)

    def reader(self) -> sa.Engine:
        """Return a connection that does not use the code under test."""
        if self.url is None:
            return sa.create_engine(f"sqlite:///{self.folder}/lakewarden.db", poolclass=sa.NullPool)
        return sa.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        with self.reader().begin() as connection:
            answer = connection.exec_driver_sql(statement)
            return [tuple(row) for row in answer] if answer.returns_rows else []

    def start(self, program: str, *more: str) -> subprocess.Popen[bytes]:
        """Start a program on the store as a process of its own."""
        arguments = [sys.executable, "-c", program, self.url or "", str(self.folder), *more]
        return subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each database in turn."""
    if request.param == "sqlite":
        yield Place(url=None, folder=tmp_path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        yield Place(url=server.make_database(), folder=tmp_path)


@pytest.mark.parametrize("statement", ["CREATE TABLE leases", "CREATE TABLE replicas", "INSERT INTO alembic_version"])
def test_a_store_of_which_the_creation_was_killed_is_created_anew(place: Place, statement: str) -> None:
    """It is created as a whole or not at all."""
    with place.start(KILLED_IN_THE_MIDDLE, statement) as killed:
        assert killed.wait(120) == 9
    assert sa.inspect(place.reader()).get_table_names() == []

    store = place.open()

    take_ownership(store, "/lake/trips")
    assert store.take_lease(store.request(a_run()).id, owner=take_ownership(store, "/lake/trips"), at=NOW).epoch == 1
    store.close()


def test_a_store_keeps_its_identity(place: Place) -> None:
    """It stays the same over every restart, for the claims beside the tables are in its name."""
    store = place.open()
    identity = store.identity()
    store.close()

    again = place.open()
    assert again.identity() == identity
    again.close()


@pytest.mark.long
def test_replicas_that_start_at_once_upgrade_once(postgres: PostgresServer, tmp_path: Path) -> None:
    """One replica upgrades, and the others wait for it."""
    place = Place(url=postgres.make_database(), folder=tmp_path)
    started = [place.start(OPEN) for _ in range(3)]

    assert [process.wait(120) for process in started] == [0, 0, 0]
    assert place.ask("SELECT count(*) FROM store") == [(1,)]


def test_a_store_of_a_newer_lakewarden_is_refused(place: Place) -> None:
    """Its rows may have another meaning. The message says what to do, and the store is not changed."""
    place.open().close()
    place.ask("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(PermanentError, match=r"was written by a newer Lakewarden .* run that version, or point"):
        place.open()

    assert place.ask("SELECT version_num FROM alembic_version") == [("9999",)]
