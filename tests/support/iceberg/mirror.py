"""An Iceberg copy of a Hudi table's metadata in the same folder, as Apache XTable makes it: by pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue

from tests.support.hudi.orders import Orders
from tests.support.iceberg.trips import CATALOG

_SYNCED = {"lastInstantSynced": "2026-11-20T08:00:00Z", "instantsToConsiderForNextSync": [], "version": 0}


@dataclass(frozen=True)
class Mirror:
    """The copy of a copy-on-write table. `marked` is whether it has the property of the tool."""

    of: Orders
    folder: Path
    marked: bool = True

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """The catalog that knows it."""
        uri, warehouse = f"jdbc:sqlite:{self.folder}/catalog.db", str(self.folder)
        return {CATALOG: {"format": "iceberg", "type": "jdbc", "uri": uri, "warehouse": warehouse}}

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in a configuration says of the table itself."""
        options = {
            "quiet_for": "1s",
            "quiet_intervals": 0,
            "distance": "0s",
            "longest_outage": "0s",
            "flink_restores": "0s",
        }
        return {"format": "iceberg", "path": f"catalog://{CATALOG}/db.orders", "options": options}

    def sync(self) -> None:
        """Let the copy name the newest base files, and no others."""
        files = self._newest()
        catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}")
        if not catalog.namespace_exists("db"):
            said = {"XTABLE_METADATA": json.dumps({**_SYNCED, "sourceTableFormat": "HUDI"})} if self.marked else {}
            catalog.create_namespace("db")
            catalog.create_table(
                ("db", "orders"),
                schema=pq.read_schema(files[0]).remove_metadata(),
                location=self.of.address,
                properties={"write.data.path": self.of.address, **said},
            )
        table = catalog.load_table(("db", "orders"))
        with table.transaction() as one:
            if table.current_snapshot() is not None:
                one.delete(AlwaysTrue())
            one.add_files([f"file://{file}" for file in files])
        catalog.engine.dispose()

    def _newest(self) -> list[Path]:
        groups: dict[str, Path] = {}
        for file in sorted(self.of.path.glob("p*/*.parquet"), key=lambda one: one.name.rpartition("_")[2]):
            groups[file.name.partition("_")[0]] = file
        return sorted(groups.values())
