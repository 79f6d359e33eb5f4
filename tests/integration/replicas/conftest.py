"""Real daemons on one PostgreSQL, each a process of its own with its own worker and JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.daemon.conftest import DaemonProcess
from tests.support.postgres import PostgresServer, running_postgres

if TYPE_CHECKING:
    from tests.integration.conftest import Orders


class ReplicaProcess(DaemonProcess):
    """A daemon on a database that it may share with others, or (None) on a SQLite file."""

    def __init__(
        self, folder: Path, orders: Orders, services: Mapping[str, Any], *, database: str | None, drain: str = "20s"
    ) -> None:
        super().__init__(folder, orders, services, memory="512m", slots=2)
        file = folder / "lakewarden.yaml"
        settings = json.loads(file.read_text())
        settings["daemon"] = {"data_dir": "data", "drain": drain, "lease": "10s"}
        if database is not None:
            settings["database"] = {"url": database}
        file.write_text(json.dumps(settings))

    def attends(self) -> bool:
        """Whether it says of itself that it attends a table."""
        return any(replica["here"] and replica["tables"] for replica in self.get("/v1/replicas") or [])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run one server for all."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def replica_of(tmp_path: Path) -> Iterator[Callable[..., ReplicaProcess]]:
    """Make replicas by name; whatever they leave behind is ended."""
    made: list[ReplicaProcess] = []

    def make(name: str, orders: Orders, services: Mapping[str, Any], **more: Any) -> ReplicaProcess:
        made.append(ReplicaProcess(tmp_path / name, orders, services, **more))
        return made[-1]

    yield make
    for replica in made:
        replica.end()
