"""Real daemons on one PostgreSQL, each a process of its own with its own worker and JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.daemon.replica_process import ReplicaProcess
from tests.support.store.postgres import PostgresServer, running_postgres

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run one server for all replicas."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def replica_of(tmp_path: Path) -> Iterator[Callable[..., ReplicaProcess]]:
    """Make replicas by name. Processes that they leave behind are killed."""
    made: list[ReplicaProcess] = []

    def make(name: str, orders: Orders, services: Mapping[str, Any], **more: Any) -> ReplicaProcess:
        made.append(ReplicaProcess(tmp_path / name, orders, services, **more))
        return made[-1]

    yield make
    for replica in made:
        replica.end()
