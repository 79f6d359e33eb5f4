"""The ledger reads what a store has written, by SQL of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faults.evidence import read_runs, read_shared_runs
from faults.ledger import PostgresLedger, SqliteLedger
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.port import Store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.sqlite import open_sqlite
from tests.support.postgres import running_postgres

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
    """Active runs, blocked services, and the rows for the checker."""
    store, path = sqlite
    filled(store)
    ledger = SqliteLedger(path)
    assert ledger.active() == {"r1", "r2"}
    assert ledger.blocked() == {"clean": "backing off"}
    assert [(run.id, run.state, run.ended) for run in read_runs(path)] == [
        ("r1", "QUEUED", False),
        ("r2", "QUEUED", False),
    ]


def test_a_postgres_store_tells_besides_who_attends_the_table(postgres: tuple[Store, str]) -> None:
    """Whose lease has ended attends nothing."""
    store, url = postgres
    filled(store)
    ledger = PostgresLedger(url)
    assert ledger.active() == {"r1", "r2"}
    assert ledger.blocked() == {"clean": "backing off"}
    assert [run.id for run in read_shared_runs(url)] == ["r1", "r2"]
    assert ledger.holder() == US
    store.leave(US)
    assert ledger.holder() is None
