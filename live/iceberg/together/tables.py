"""The tables beside the suite's own: how they are created, opened and written to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from lakewarden.demo.formats.iceberg.demo import NAMESPACE
from lakewarden.demo.writers.orders import Row
from live.iceberg.catalog_demo import CATALOG, python_catalog

PARTITIONS = 3


class Name(StrEnum):
    """The tables, by their names in the catalog."""

    UPSERTS = "upserts"
    """The table of a job that upserts by equality deletes, and publishes staged snapshots."""
    STAGED = "staged"
    """The table of a job that writes files long before it commits them, as Kafka Connect does."""
    BRANCHED = "branched"
    """The table of an appender that writes to main and to a branch in turn."""
    MOVING = "moving"
    """The table of an appender that is renamed to MOVED; another one is created under the old name."""
    MOVED = "moved"
    STREAMED = "streamed"
    """The table of an appender whose rows two streams of Spark read, with their checkpoints in its folder."""


CREATED = (Name.UPSERTS, Name.STAGED, Name.BRANCHED, Name.MOVING, Name.STREAMED)
"""The tables that are there before their writers start."""

BRANCH = "audit"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "p", IntegerType(), required=False),
    NestedField(3, "v", StringType(), required=False),
)
_ARROW = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])


def open_catalog(directory: Path) -> Catalog:
    """Return the catalog of the suite in that directory."""
    return load_catalog(CATALOG, **python_catalog(directory))


def identifier(name: Name) -> str:
    """Return a table's name without its catalog."""
    return f"{NAMESPACE}.{name}"


def create(catalog: Catalog, directory: Path, name: Name, *, folder: str) -> Table:
    """Create a table, partitioned by `p`, in a folder of that name."""
    return catalog.create_table(
        identifier(name),
        schema=SCHEMA,
        location=str(directory / "warehouse" / NAMESPACE / folder),
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p")),
        properties={"format-version": "2"},
    )


def entry(name: Name, *, services: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table's entry in the daemon's configuration."""
    return {
        "id": str(name),
        "format": "iceberg",
        "path": f"catalog://{CATALOG}/{identifier(name)}",
        "mode": "act",
        "poll": "1s",
        "options": dict(options),
        "services": dict(services),
    }


def order(id_: int, batch: int, *, deleted: bool = False) -> Row:
    """Return a row. Its partition follows from its id, its value from the batch."""
    return Row(key=str(id_), partition=str(id_ % PARTITIONS), value=batch, deleted=deleted)


def arrow(rows: tuple[Row, ...]) -> pa.Table:
    """Return rows as an Arrow table with the columns of these tables."""
    columns = ([int(row.key) for row in rows], [int(row.partition) for row in rows], [str(row.value) for row in rows])
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )
