"""Looks at an Iceberg table as the daemon does."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.iceberg.iceberg_table import IcebergTable

REWRITES = (Service.COMPACTION,)


class CountingStorage(LocalStorage):
    """Remembers the names of the files that were read."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        content = super().read(location, limit=limit)
        self.names.append(Path(location).name)
        return content


def registered(location: Path | str, *services: Service, **options: Any) -> Table:
    """Return a table with a policy for each service, and options of its own."""
    return Table(
        id=TableId("trips"),
        format="iceberg",
        location=str(location),
        options=IcebergTableOptions(**options),
        policies={
            service: Policy(trigger=NumCommits(at_least=1), options=ICEBERG.services[service]()) for service in services
        },
    )


def look(
    table: IcebergTable,
    *services: Service,
    previous: Observation | None = None,
    storage: Storage | None = None,
    now: datetime | None = None,
    **options: Any,
) -> Observation:
    """Observe a table with policies of `services`: by default a compaction's, which asks for files."""
    asked = registered(table.folder, *(services or REWRITES), **options)
    return ICEBERG.observe(asked, storage or LocalStorage(), previous, now=now or table.clock.now())


def view_of(table: IcebergTable, *services: Service, **options: Any) -> TableView:
    """Return what a first look at a table shows."""
    return look(table, *services, **options).view


def files_in(observation: Observation) -> list[LiveFile]:
    """Return the live files that an observation keeps."""
    assert isinstance(observation.memo, Memo)
    return [file for digest in observation.memo.digests.values() for file in digest.live()]
