"""The store reader reads the rows of a store by SQL of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faults.checking.evidence import read_runs, read_shared_runs
from faults.checking.store_reader import PostgresStoreReader, SqliteStoreReader
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import running_postgres

NOW = datetime(2026, 1, 1, tzinfo=UTC)
US = ReplicaId("host:42:abc")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[tuple[Store, Path]]:
    """Return a store in a file."""
    store = open_sqlite(tmp_path / "db")
    yield store, tmp_path / "db"
    store.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[Store, str]]:
    """Return a store on a server."""
    with running_postgres() as server:
        url = server.make_database()
        store = open_postgres(DatabaseSettings(url=url))
        yield store, url
        store.close()


def filled(store: Store) -> None:
    store.join(Replica(id=US, url=""), lease=timedelta(minutes=5))
    store.share(US, locations=["/t"], busy=[])
    for number, service in enumerate((Service.CLEAN, Service.COMPACTION), start=1):
        store.request(
            Run(
                id=RunId(f"r{number}"),
                table=TableId("orders"),
                identity="/t",
                service=service,
                state=RunState.QUEUED,
                reason="",
                requested_by="policy",
                created_at=NOW,
            )
        )
    blocked = DecisionRow(
        table=TableId("orders"),
        service=Service.CLEAN,
        decision="Blocked",
        reason="backing off",
        remedy=None,
        again_at=None,
        decided_at=NOW,
    )
    store.decided([blocked])


def test_an_sqlite_store_is_read_beside_its_daemon(sqlite: tuple[Store, Path]) -> None:
    """The test compares the active runs, the blocked services, and the rows for the checker."""
    store, path = sqlite
    filled(store)
    store_reader = SqliteStoreReader(path)
    assert store_reader.active() == {"r1", "r2"}
    assert store_reader.blocked() == {"clean": "backing off"}
    assert [(run.id, run.state, run.ended) for run in read_runs(path)] == [
        ("r1", "QUEUED", False),
        ("r2", "QUEUED", False),
    ]


def test_before_its_daemon_has_made_it_an_sqlite_store_is_empty(tmp_path: Path) -> None:
    """On a busy machine the first writer commits before the daemon has a store. Without its tables it is empty, too."""
    path = tmp_path / "db"
    store_reader = SqliteStoreReader(path)
    assert store_reader.active() == frozenset()
    path.touch()
    assert store_reader.blocked() == {}
    path.unlink()
    store = open_sqlite(path)
    filled(store)
    assert store_reader.active() == {"r1", "r2"}
    store.close()


def test_an_sqlite_store_that_has_gone_is_no_empty_one(sqlite: tuple[Store, Path]) -> None:
    """Otherwise a trial would end as if every run had ended."""
    store, path = sqlite
    filled(store)
    store_reader = SqliteStoreReader(path)
    assert store_reader.active()
    for file in path.parent.glob("db*"):
        file.unlink()
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        store_reader.active()


@pytest.mark.long
def test_a_postgres_store_tells_besides_who_owns_the_table(postgres: tuple[Store, str]) -> None:
    """A replica with an expired lease owns nothing."""
    store, url = postgres
    filled(store)
    store_reader = PostgresStoreReader(url)
    assert store_reader.active() == {"r1", "r2"}
    assert store_reader.blocked() == {"clean": "backing off"}
    assert [run.id for run in read_shared_runs(url)] == ["r1", "r2"]
    assert store_reader.holder() == US
    store.leave(US)
    assert store_reader.holder() is None
