"""Orders that another Hudi release writes and reads in its own process. Lakewarden services them."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.demo.daemon import ZooKeeper
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from tests.support.hudi.hudi_release import HudiRelease
from tests.support.hudi.orders import Orders

MERGE_ON_READ, COPY_ON_WRITE = "MERGE_ON_READ", "COPY_ON_WRITE"


@dataclasses.dataclass
class ReleaseOrders(Orders):
    """The orders of one release, on a table of the type `kind`."""

    release: HudiRelease = dataclasses.field(kw_only=True)
    kind: str = dataclasses.field(kw_only=True)

    def writing(self, **conf: str) -> ReleaseOrders:
        """Return the same orders, written with further options. Both have one record."""
        return dataclasses.replace(self, conf={**self.conf, **conf})

    def found(self) -> dict[str, str]:
        """Return the rows that hudi-rs finds, in a copy without the metadata table. It reads no metadata table with
        files of two releases, as those of 1.0.2 and ours are.
        """
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "orders"
            shutil.copytree(self.path, copy, ignore=shutil.ignore_patterns("metadata"))
            properties = [line for line in self.properties() if "hoodie.table.metadata.partitions" not in line]
            (copy / ".hoodie" / "hoodie.properties").write_text("\n".join(properties))
            return Orders.found(dataclasses.replace(self, path=copy))

    def read_by_their_release(self) -> dict[str, str]:
        """Return the rows that the table's own release finds in it."""
        return self.release.rows(self.path)

    def says(self) -> Any:
        """Return the description of the table by its own release."""
        return self.release.says(self.path, self.kind)

    def view(self) -> TableView:
        """Return Lakewarden's observation of it."""
        options = HudiTableOptions.model_validate({"lock": dict(self.lock)})
        table = Table(id=TableId("orders"), format="hudi", location=str(self.path), options=options)
        return HUDI.observe(table, storage_for(table.location), None, now=datetime.now(UTC)).view

    def properties(self) -> list[str]:
        """Return the table's properties, without the comments with their time."""
        text = (self.path / ".hoodie" / "hoodie.properties").read_text()
        return sorted(line for line in text.splitlines() if not line.startswith("#"))

    def _save(self, rows: Sequence[tuple[str, str, int, str]]) -> None:
        self.release.write(self.path, rows, self._options())


@pytest.fixture(scope="session")
def release_of() -> Iterator[Callable[[str], HudiRelease]]:
    """Start each requested release once."""
    started: dict[str, HudiRelease] = {}
    with ExitStack() as life:

        def start(version: str) -> HudiRelease:
            if version not in started:
                started[version] = HudiRelease(version)
                life.callback(started[version].close)
            return started[version]

        yield start


@pytest.fixture
def orders_of(
    release_of: Callable[[str], HudiRelease], zookeeper: ZooKeeper, tmp_path: Path
) -> Callable[[str, str], ReleaseOrders]:
    """Return a function that makes the empty orders of a release, with a table type."""

    def make(version: str, kind: str) -> ReleaseOrders:
        key = str(tmp_path).strip("/").replace("/", ".")
        lock = {"provider": "zookeeper", "url": zookeeper.address, "base_path": "/hudi", "lock_key": key}
        conf = {"hoodie.datasource.write.table.type": kind}
        return ReleaseOrders(
            path=tmp_path / "orders", lock=lock, spark=None, conf=conf, release=release_of(version), kind=kind
        )

    return make
