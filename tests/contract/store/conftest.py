"""Every kind of store in turn, each empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import from_now
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import PostgresServer, running_postgres
from tests.support.store.stores import lent_postgres, new_sqlite


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return each store in turn."""
    with ExitStack() as life:
        yield life.enter_context(closing(_opened(request, tmp_path, life)))


def _opened(request: pytest.FixtureRequest, folder: Path, life: ExitStack) -> Store:
    match request.param:
        case "sqlite":
            return new_sqlite(folder / "lakewarden.db")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            return open_postgres(life.enter_context(lent_postgres(server)))


@pytest.fixture
def lapse(store: Store) -> Callable[[ReplicaId], None]:
    """Return a function that ends a replica's lease now, as if it had not been renewed."""

    def run_out(replica: ReplicaId) -> None:
        assert isinstance(store, Store)
        lapsing = sa.update(schema.replicas).where(schema.replicas.c.id == replica)
        with store._write() as connection:
            connection.execute(lapsing.values(lease_until=from_now()))

    return run_out
