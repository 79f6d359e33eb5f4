"""The Iceberg tables of the fleet, made by pyiceberg without a JVM: with small files, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from live.fleet.kinds import Made, Wrong

NAMESPACE = "fleet"
JDBC_NAME = "lake"

_SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "note", StringType()))
_PROPERTIES = {"write.parquet.bloom-filter-enabled": "false", "commit.retry.num-retries": "20"}


def jdbc_uri(lake: Path) -> str:
    """Return the address of the JDBC catalog, as pyiceberg spells it."""
    return f"sqlite:///{lake}/jdbc.db"


def jdbc_catalog(lake: Path) -> SqlCatalog:
    """Open the JDBC catalog."""
    return SqlCatalog(JDBC_NAME, uri=jdbc_uri(lake), warehouse=f"file://{lake}/jdbc")


def make_tables(tables: Iterable[Made], catalog: Catalog, *, commits: int) -> None:
    """Create the tables, append to each so many times, and spoil what is to be wrong."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    for table in tables:
        made = catalog.create_table((NAMESPACE, table.name), schema=_SCHEMA, properties=_PROPERTIES)
        for number in range(commits):
            made.append(rows_of(number))
        if table.wrong is not Wrong.NOTHING:
            _spoil(catalog, table)


def rows_of(number: int) -> pa.Table:
    """Return the rows of one commit."""
    ids = range(number * 10, number * 10 + 10)
    return pa.table({"id": list(ids), "note": [f"{number}-{key}" for key in ids]})


def _spoil(catalog: Catalog, table: Made) -> None:
    loaded = catalog.load_table((NAMESPACE, table.name))
    metadata = Path(loaded.metadata_location.removeprefix("file://"))
    snapshot = loaded.current_snapshot()
    match table.wrong:
        case Wrong.METADATA:
            metadata.unlink()
        case Wrong.CUT:
            metadata.write_bytes(metadata.read_bytes()[: metadata.stat().st_size // 2])
        case Wrong.MANIFESTS if snapshot is not None:
            manifests = Path(snapshot.manifest_list.removeprefix("file://"))
            manifests.write_bytes(manifests.read_bytes()[:200])
        case _:
            pass
