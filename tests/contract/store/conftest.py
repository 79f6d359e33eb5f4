"""Every store in turn, empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.store.port import Store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.dialects import from_now
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import SqlStore
from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store in turn."""
    match request.param:
        case "memory":
            opened: Store = MemoryStore(ManualClock())
        case "sqlite":
            opened = open_sqlite(tmp_path / "lakewarden.db")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            opened = open_postgres(DatabaseSettings(url=server.make_database()))
    yield opened
    opened.close()


@pytest.fixture
def lapse(store: Store) -> Callable[[ReplicaId], None]:
    """Return what lets a replica's lease run out this moment, as if nobody had renewed it."""

    def run_out(replica: ReplicaId) -> None:
        match store:
            case MemoryStore():
                store._members[replica] = replace(store._members[replica], until=store._clock.monotonic())
            case SqlStore():
                lapsing = sa.update(schema.replicas).where(schema.replicas.c.id == replica)
                with store._write() as connection:
                    connection.execute(lapsing.values(lease_until=from_now()))

    return run_out
