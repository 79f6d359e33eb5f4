"""Iceberg tables that are found by their folders: small ones with rows, and a large one without."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from lakewarden.planners.model.clock import SystemClock
from tests.support.iceberg.iceberg_table import IcebergTable

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "region", IntegerType(), required=False)
)
_BY_REGION = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"))
_ARROW = pa.schema([("id", pa.int64()), ("region", pa.int32())])
_REGIONS = 3
_ROWS = 30


class IcebergTables:
    """A folder of tables, and the catalog by which pyiceberg writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
        self._catalog.create_namespace("bench")

    def small(self, name: str, *, commits: int = 6) -> Path:
        """Write a table with one small file from each commit in each of three partitions, and return its folder."""
        table = self._made(name)
        ids = list(range(_ROWS))
        columns = [pa.array(ids, pa.int64()), pa.array([one % _REGIONS for one in ids], pa.int32())]
        for _ in range(commits):
            table.append(pa.Table.from_arrays(columns, schema=_ARROW))
        return _found_by_folder(table)

    def _made(self, name: str) -> Table:
        location = str(self.folder / "tables" / name)
        return self._catalog.create_table(("bench", name), schema=_SCHEMA, location=location, partition_spec=_BY_REGION)


@contextmanager
def iceberg_tables() -> Iterator[IcebergTables]:
    """Provide a folder for tables for as long as the context is open."""
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        yield IcebergTables(folder)
    finally:
        shutil.rmtree(folder)


def large_table(folder: Path, *, snapshots: int, files: int) -> IcebergTable:
    """Write the metadata of a table with so many snapshots and data files. The files do not exist."""
    table = IcebergTable(folder, clock=SystemClock())
    for number in range(snapshots):
        these = range(files * number // snapshots, files * (number + 1) // snapshots)
        table.append(*(table.file(one % _REGIONS, size=10_000 + one) for one in these))
    return table


def _found_by_folder(table: Table) -> Path:
    """Make the newest metadata look like that of a Hadoop catalog: in a numbered file, with the number in a hint."""
    folder = Path(table.location())
    shutil.copyfile(table.metadata_location.removeprefix("file://"), folder / "metadata" / "v1.metadata.json")
    (folder / "metadata" / "version-hint.text").write_text("1")
    return folder
