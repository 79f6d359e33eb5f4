"""Only what a writer of Iceberg could have written for this table can be an orphan of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.deletion.orphan_files import NotOurs, OwnNames, files_below
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.unit.planners.formats.test_shared_folder import MAKE

ID = "3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21"


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Return the metadata of a table without properties."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    read = read_table(str(table.metadata_file), LocalStorage())
    [field] = read.specs[read.default_spec]
    return replace(read, specs={**read.specs, 7: (field, replace(field, name="p/day"))})


def named(metadata: TableMetadata, **properties: str) -> OwnNames:
    """Return the names of the table with these properties, `{}` in them being its location."""
    given = {key.replace("_", ".").replace("..", "-"): value for key, value in properties.items()}
    return OwnNames(
        replace(metadata, properties={key: value.format(metadata.location) for key, value in given.items()})
    )


@pytest.mark.parametrize(
    "path",
    [
        f"data/00003-12-{ID}-00001.parquet",
        f"data/p=2026-11-01/p%2Fday=eu%2Fwest/00003-12-{ID}-00001.parquet",
        f"data/p=null/00003-12-{ID}-0-00001-deletes.parquet",
        f"data/p=1/00000-0-{ID}.parquet",
        f"data/0110/1010/0001/11010010/p=1/00000-4-{ID}-00001.orc",
        f"data/0110/1010/0001/11010010-00000-4-{ID}-00001.parquet",
        f"data/5f3a9c01/p=1/00000-4-{ID}-00001.avro",
        f"data/aXk3Zw==/00000-4-{ID}-00001.parquet",
        f"data/p=1/20261101_080000_00012_ab3de-{ID}.parquet",
        f"data/p=1/{ID}.parquet",
        f"data/00000-4-{ID}-00002-deletes.puffin",
        f"metadata/{ID}-m0.avro",
        f"metadata/snap-123-1-{ID}.avro",
        f"metadata/optimized-m-{ID}.avro",
        f"metadata/00007-{ID}.gz.metadata.json",
        "metadata/v7.metadata.json",
        f"metadata/123-{ID}.stats",
        "metadata/lakewarden-clean-r1.files",
    ],
)
def test_what_writers_of_iceberg_leave_may_be_an_orphan(metadata: TableMetadata, path: str) -> None:
    """The names are those of Spark, Flink, pyiceberg, Trino and DuckDB, with all layouts of folders."""
    assert path in named(metadata)


@pytest.mark.parametrize(
    "path",
    [
        f"00003-12-{ID}-00001.parquet",
        f"p=1/00003-12-{ID}-00001.parquet",
        "checkpoint/offsets/12",
        f"checkpoint/metadata/00003-12-{ID}-00001.parquet",
        f"data/checkpoint/00003-12-{ID}-00001.parquet",
        f"raw/data/00003-12-{ID}-00001.parquet",
        f"data/part-00000-{ID}-c000.snappy.parquet",
        f"data/p=1/{ID}-0_0-12-40_20261101080000000.parquet",
        f"data/p=1/data-{ID}-0.parquet",
        f"data/p=1/part-{ID}-0-0",
        "data/p=1/export.parquet",
        "data/p=1/README.md",
        "metadata/version-hint.text",
        f"data/year=2020/p=1/00003-12-{ID}-00001.parquet",
        *("metadata/notes/x.avro", "metadata/backup.metadata.json", "metadata/before-migration.json"),
        "models/model.bin",
    ],
)
def test_everything_else_is_not_the_tables(metadata: TableMetadata, path: str) -> None:
    """Among it are a stream's checkpoint, and files of Spark, Delta, Hudi, Paimon and Flink's file system sink."""
    assert path not in named(metadata)


@pytest.mark.parametrize(
    ("properties", "path"),
    [
        ({"write_data_path": "{}/elsewhere"}, f"elsewhere/p=1/00000-4-{ID}-00001.parquet"),
        ({"write_data_path": "{}"}, f"p=1/00000-4-{ID}-00001.parquet"),
        ({"write_data_path": "file:{}/"}, f"00000-4-{ID}-00001.parquet"),
        ({"write_object..storage_path": "{}/o"}, f"o/0110/1010/0001/11010010/00000-4-{ID}-00001.parquet"),
        ({"write_metadata_path": "{}/m"}, f"m/{ID}-m0.avro"),
    ],
)
def test_a_property_names_another_folder_of_the_table(
    metadata: TableMetadata, properties: Mapping[str, str], path: str
) -> None:
    """The usual folder stays the table's, too: the property may be new."""
    assert path not in named(metadata)
    assert path in named(metadata, **properties)
    assert f"data/00000-4-{ID}-00001.parquet" in named(metadata, **properties)
    assert "checkpoint/offsets/12" not in named(metadata, **properties)


@pytest.mark.parametrize("other", MAKE)
@pytest.mark.parametrize("place", ["below", "data/p=1", "data/deep/er"])
def test_a_table_of_any_format_below_is_left_alone_and_told(tmp_path: Path, other: str, place: str) -> None:
    """Even files in it with names of Iceberg are its own."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    make: Callable[[Path], None] = MAKE[other]
    make(table.folder / place)
    (table.folder / place / "data").mkdir()
    (table.folder / place / f"data/00000-4-{ID}-00001.parquet").write_bytes(b"x")
    not_ours = NotOurs()
    found = {file.path for file in files_below(str(table.folder), LocalStorage(), not_ours)}
    assert not [path for path in found if path.startswith(f"{place}/")]
    assert any(path.startswith("metadata/") for path in found)
    assert not_ours.tables == {place: f"{'an' if other == 'iceberg' else 'a'} {other.capitalize()} table"}


def test_what_is_left_alone_is_told_by_folder() -> None:
    """Tables come first, and then the folders with most files. There are never more than twenty."""
    not_ours = NotOurs()
    not_ours.tables["sub"] = "a Hudi table"
    for path in ("checkpoint/offsets/0", "checkpoint/commits/0", "x.bin"):
        not_ours.count(path)
    assert list(not_ours.told().items()) == [("sub", "a Hudi table"), ("checkpoint", "2 files"), ("", "1 file")]
    for number in range(2000):
        not_ours.count(f"{number}/x")
    assert not_ours.files["elsewhere"] > 900
    assert len(not_ours.told()) == 20
