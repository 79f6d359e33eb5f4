"""The reader of Iceberg tables reads the newest state completely, by pyiceberg alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from lakewarden.demo.formats.iceberg.appender import AppendCommitter
from lakewarden.demo.formats.iceberg.reader import open_folder, open_named, read_snapshot
from lakewarden.demo.writers.orders import Row

FIRST = (Row(key="a", partition="north", value=1), Row(key="b", partition="south", value=1))
SECOND = (Row(key="c", partition="north", value=2),)
_SCHEMA = Schema(
    NestedField(1, "order_id", StringType()),
    NestedField(2, "region", StringType()),
    NestedField(3, "version", IntegerType()),
)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": str(tmp_path / "warehouse")}


@pytest.fixture
def catalog(settings: dict[str, str]) -> Catalog:
    """Return a catalog with an empty table, as the suite's writer creates it."""
    catalog = load_catalog("lake", **settings)
    catalog.create_namespace("shop")
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"))
    catalog.create_table("shop.orders", _SCHEMA, partition_spec=spec)
    return catalog


def test_what_the_appender_has_committed_is_found(catalog: Catalog, settings: dict[str, str]) -> None:
    """A later reader finds it, with the number of files that it had to read."""
    appender = AppendCommitter(table="lake.shop.orders", catalog=settings)
    newest = open_named("lake.shop.orders", settings)
    assert read_snapshot(newest()).rows == {}

    appender.commit(1, FIRST)
    appender.commit(2, SECOND)

    found = read_snapshot(newest())
    assert found.rows == {row.key: row for row in (*FIRST, *SECOND)}
    assert found.counted == {"data_files": 3, "delete_files": 0, "snapshots": 2}


def test_an_older_snapshot_shows_what_it_always_showed(catalog: Catalog, settings: dict[str, str]) -> None:
    """Time travel works for every retained snapshot."""
    appender = AppendCommitter(table="lake.shop.orders", catalog=settings)
    appender.commit(1, FIRST)
    first = catalog.load_table("shop.orders").current_snapshot()
    appender.commit(2, SECOND)
    assert first is not None

    found = read_snapshot(catalog.load_table("shop.orders"), snapshot=first.snapshot_id)

    assert found.rows == {row.key: row for row in FIRST}


def test_a_key_that_is_there_twice_is_an_error(catalog: Catalog, settings: dict[str, str]) -> None:
    """A rewrite that keeps the replaced files would be found by this."""
    table = catalog.load_table("shop.orders")
    rows = pa.Table.from_pylist([{"order_id": "a", "region": "north", "version": 1}] * 2)
    table.append(rows.cast(_SCHEMA.as_arrow()))

    with pytest.raises(ValueError, match="a was found twice"):
        read_snapshot(table)


def test_of_a_folders_versions_the_newest_by_number_is_opened(catalog: Catalog, tmp_path: Path) -> None:
    """A Hadoop catalog numbers its versions: 10 is newer than 9. Its hint may be older than the newest version."""
    table = catalog.load_table("shop.orders")
    metadata = tmp_path / "folder" / "metadata"
    metadata.mkdir(parents=True)
    for version in (9, 10):
        written = Path(table.metadata_location.removeprefix("file://")).read_text()
        (metadata / f"v{version}.metadata.json").write_text(written)
    (metadata / "version-hint.text").write_text("9")

    assert open_folder(tmp_path / "folder").metadata_location.endswith("v10.metadata.json")


def test_a_folder_without_a_table_is_an_error(tmp_path: Path) -> None:
    """The reader says so, and tries again."""
    with pytest.raises(FileNotFoundError, match="no Iceberg table"):
        open_folder(tmp_path)
