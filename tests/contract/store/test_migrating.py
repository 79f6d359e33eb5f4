"""The schema is upgraded in whole steps. If an upgrade is interrupted, runs twice, or meets a newer store, nothing is
lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import alembic.command
import alembic.config
import pytest
import sqlalchemy as sa

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.port import Store
from lakewarden.service.store.settings import DatabaseSettings
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

    def make_old(self, revision: str) -> None:
        """Give the database the schema of an earlier Lakewarden."""
        config = alembic.config.Config()
        config.set_main_option("script_location", "lakewarden.service.store.sql:migrations")
        config.set_main_option("recursive_version_locations", "true")
        config.set_main_option("path_separator", "os")
        with self.reader().begin() as connection:
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, revision)

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


@pytest.mark.parametrize("statement", ["CREATE TABLE leases", "CREATE TABLE replicas", "SET version_num='0003'"])
def test_an_upgrade_that_was_killed_goes_on(place: Place, statement: str) -> None:
    """Each step is done as a whole or not at all. The next start does the rest."""
    with place.start(KILLED_IN_THE_MIDDLE, statement) as killed:
        assert killed.wait(120) == 9
    tables = set(sa.inspect(place.reader()).get_table_names())
    assert ("leases" in tables) == ("approvals" in tables) == (statement != "CREATE TABLE leases")
    assert "replicas" not in tables

    store = place.open()

    take_ownership(store, "/lake/trips")
    assert store.take_lease(store.request(a_run()).id, owner=take_ownership(store, "/lake/trips"), at=NOW).epoch == 1
    store.close()


def test_a_store_of_the_first_schema_is_upgraded_with_what_it_holds(place: Place) -> None:
    """Its runs have no owner yet. The owner of their table adopts them, under a higher epoch."""
    place.make_old("0001")
    place.ask(
        "INSERT INTO runs (id, number, table_id, identity, service, state, reason, requested_by, created_at, epoch,"
        " figures) VALUES ('old', 7, 'trips', '/lake/trips#once', 'clean', 'RUNNING', 'due', 'policy',"
        " '2026-05-01 12:00:00', 4, '{}')"
    )
    place.ask("INSERT INTO leases VALUES ('/lake/trips#once', 'clean', 4, 'host:1', '2026-05-01 12:00:00')")
    place.ask("INSERT INTO pauses VALUES ('trips', 'migration', '2026-05-01 12:00:00')")

    store = place.open()

    assert store.pauses() == {TableId("trips"): "migration"}
    assert (store.approvals(), store.service_states(), store.replicas()) == ([], [], [])
    me = take_ownership(store, "/lake/trips")
    adopted = store.adopt(RunId("old"), owner=me)
    assert (adopted.state, adopted.epoch, adopted.owner) == (RunState.UNKNOWN, 5, me)
    store.request(a_run("new", service=Service.COMPACTION))
    assert [run.id for run in store.runs()] == ["new", "old"]
    assert place.ask("SELECT table_id FROM registered") == [("trips",)], "it counts as registered from now on"
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
