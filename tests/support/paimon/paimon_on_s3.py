"""A Paimon table on S3, under the lock of a catalog, for programs that run without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from lakewarden.executors.contract import Assignment
from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.planners.formats.paimon.catalogs.settings import JdbcCatalog
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage.conditions import ObjectConditions
from lakewarden.planners.storage.inside import ScatteredStorage
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.storages import open_client
from tests.support.directory.watched_client import WatchedClient
from tests.support.object_stores.s3_server import S3Server
from tests.support.paimon.paimon_table import File, PaimonTable

_CATALOG = JdbcCatalog(type="jdbc", uri="jdbc:sqlite:/nowhere/catalog.db", warehouse="s3://lake/w")
_ALIVE = SimpleNamespace(currentTimeMillis=lambda: 0)
_JVM = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=_ALIVE)))
_SESSION = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=_JVM))
"""All that these programs ask of a JVM is whether it lives."""


class AgedClient(WatchedClient):
    """Tells that every file of the table is older than it is. The files of Lakewarden have their own time."""

    def __init__(self, client: Any, tell: Callable[[str], None], age: timedelta) -> None:
        super().__init__(client, tell)
        self._age = age

    def list(self, *arguments: Any, **options: Any) -> Iterator[list[dict[str, Any]]]:
        """Pass the pages of a listing on."""
        for page in self._client.list(*arguments, **options):
            yield [self._aged(one) for one in page]

    def head(self, path: str) -> dict[str, Any]:
        """Pass on what the store tells of a file."""
        return self._aged(self._client.head(path))

    def _aged(self, one: Mapping[str, Any]) -> dict[str, Any]:
        age = timedelta() if "/_lakewarden/" in one["path"] else self._age
        return {**one, "last_modified": one["last_modified"] - age}


@dataclass
class TableOnS3:
    """A table that a builder has written on a disk, in a bucket. `told` are its options in the configuration."""

    table: PaimonTable
    server: S3Server
    told: Mapping[str, Any] = field(default_factory=dict)
    age: timedelta = timedelta()

    def __post_init__(self) -> None:
        """Let it be there, with a file for each name that its manifests know."""
        self.server.start()
        for number in self.table.snapshots:
            for one in self.table.live(number):
                path = self.table.folder / path_of(one)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(one.name)
        self.location = self.server.upload(self.table.folder, uuid4().hex)
        self.client = self.server.files()

    def opened(self, service: Service, *, tell: Callable[[str], None] = lambda _: None) -> OpenTable:
        """Open it for a run. `tell` is told before and after each request that changes something, and may raise."""
        store = self.server.store()
        storage = ObjectStorage(
            lambda host: AgedClient(open_client(store, host), tell, self.age), timeout=store.timeout
        )
        registered = Table(
            id=TableId("t"),
            format="paimon",
            location=self.location,
            catalog=_CATALOG,
            options=PaimonTableOptions.model_validate(dict(self.told)),
        )
        assignment = Assignment(
            run=RunId(uuid4().hex[:16]),
            epoch=1,
            table=registered.id,
            format="paimon",
            location="catalog://lake/db.t",
            service=service,
        )
        return OpenTable(
            spark=_SESSION,
            java=None,
            assignment=assignment,
            table=registered,
            storage=ScatteredStorage(lambda _: storage, lambda _: ObjectConditions(storage)),
            clock=self.table.clock,
            scratch=Path("/nowhere"),
        )

    def without_lock(self, opened: OpenTable) -> OpenTable:
        """Return the table as one with writers that commit without a lock."""
        opened.table = replace(opened.table, catalog=_CATALOG.model_copy(update={"lock": False}))
        return opened

    def put(self, path: str, content: str = "x") -> str:
        """Write a file below its location."""
        self.client.pipe_file(f"{self.location}/{path}", content.encode())
        return path

    def read(self, path: str) -> str:
        """Return the content of a file."""
        return str(self.client.cat_file(f"{self.location}/{path}").decode())

    def paths(self) -> set[str]:
        """Return the paths of all files below its location, without hints and the folder of Lakewarden."""
        start = self.location.removeprefix("s3://")
        found = {one.removeprefix(f"{start}/") for one in self.client.find(start)}
        hints = {"snapshot/LATEST", "snapshot/EARLIEST"}
        return {one for one in found - hints if not one.startswith("_lakewarden/")}

    def needed(self, *numbers: int) -> set[str]:
        """Return the paths that these snapshots need, and those of the schemas."""
        wanted = {f"schema/{one.name}" for one in (self.table.folder / "schema").iterdir()}
        for number in numbers:
            snapshot = self.table.snapshots[number]
            wanted |= {f"snapshot/snapshot-{number}", *(path_of(one) for one in self.table.live(number))}
            wanted |= {f"manifest/{snapshot[name]}" for name in ("baseManifestList", "deltaManifestList")}
            wanted |= {f"manifest/{one.name}" for one in self.table.manifests[number]}
        return wanted


def path_of(one: File) -> str:
    """Return the path of a data file below its table."""
    return f"p={one.p}/bucket-{one.bucket}/{one.name}"
