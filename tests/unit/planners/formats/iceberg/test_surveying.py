"""The survey of an Iceberg table that pyiceberg wrote counts what pyiceberg itself counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as Written

from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.formats.iceberg.surveying import SURVEYOR
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import Storages
from lakewarden.planners.surveying.contents import Contents

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class Lake:
    """A catalog in sqlite, with one table."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"{folder}/catalog.db"
        self.folder = folder / "wh" / "shop" / "sales"
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{self.uri}", warehouse=f"file://{folder}/wh")
        self.catalog.create_namespace("shop")
        self.written: Written = self.catalog.create_table("shop.sales", ROWS.schema, location=f"file://{self.folder}")

    def by_name(self) -> Table:
        catalog = JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{self.uri}", warehouse="/nowhere")
        return replace(self.by_path("catalog://lake/shop.sales"), catalog=catalog)

    def by_path(self, location: str = "") -> Table:
        where = location or str(self.folder)
        return Table(id=TableId(where), format="iceberg", location=where, policies=SURVEYOR.policies)

    def survey(self, table: Table | None = None, *, after: timedelta = timedelta()) -> Contents:
        asked = table or self.by_name()
        storage = Storages().of(asked.location)
        return SURVEYOR.survey(asked, storage, now=datetime.now(UTC) + after).contents


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.catalog.engine.dispose()


def test_the_files_are_those_that_pyiceberg_counts(lake: Lake) -> None:
    """Live files and their bytes, snapshots, and the files of older snapshots after an overwrite. All of them are
    small.
    """
    for _ in range(3):
        lake.written.append(ROWS)
    lake.written.overwrite(ROWS)
    for _ in range(5):
        lake.written.append(ROWS)
    theirs = lake.written.inspect.files()
    everything = lake.written.inspect.all_files()
    sizes = dict(zip(everything["file_path"].to_pylist(), everything["file_size_in_bytes"].to_pylist(), strict=True))
    live = dict(zip(theirs["file_path"].to_pylist(), theirs["file_size_in_bytes"].to_pylist(), strict=True))
    found = lake.survey()
    assert found.live == (len(live), sum(live.values()))
    assert found.old == (len(sizes) - len(live), sum(sizes.values()) - sum(live.values()))
    assert found.versions == len(lake.written.metadata.snapshots)
    assert found.small == found.live
    assert found.unknown == (0, 0)
    assert not found.notes


def test_a_compaction_of_small_files_leaves_one(lake: Lake) -> None:
    """Iceberg's planner takes five small files or more."""
    for _ in range(4):
        lake.written.append(ROWS)
    assert lake.survey().rewrites[Service.COMPACTION] == (0, 0, 0)
    lake.written.append(ROWS)
    found = lake.survey()
    assert found.rewrites[Service.COMPACTION] == (5, found.live.bytes, 1)


def test_a_table_is_read_by_its_path_with_a_remark(lake: Lake) -> None:
    """Nobody has named its catalog. The newest metadata file in its folder is what the catalog names, unless a commit
    was taken back.
    """
    lake.written.append(ROWS)
    lake.written.append(ROWS)
    by_path, by_name = lake.survey(lake.by_path()), lake.survey()
    assert by_path.live == by_name.live == (2, by_name.live.bytes)
    assert [note for note in by_path.notes if "its catalog may name another one" in note]


def test_what_expires_is_what_only_old_snapshots_need(lake: Lake) -> None:
    """By the default of five days. A file that the current snapshot needs stays."""
    lake.written.append(ROWS)
    lake.written.overwrite(ROWS)
    now, later = lake.survey(), lake.survey(after=timedelta(days=30))
    assert now.deletes[Service.CLEAN] == (0, 0)
    assert later.deletes[Service.CLEAN] == now.old
    assert now.old is not None
    assert now.old.files == 1


def test_a_file_that_no_snapshot_names_is_an_orphan_after_a_day(lake: Lake) -> None:
    """A young one may be of a commit under way."""
    lake.written.append(ROWS)
    stray = lake.folder / "data" / "stray.parquet"
    stray.write_bytes(b"x" * 12)
    assert lake.survey().unknown == (0, 0)
    before = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(stray, (before, before))
    assert lake.survey().unknown == (1, 12)


def test_a_manifest_that_is_gone_leaves_the_live_figures(lake: Lake) -> None:
    """The files of older versions are not known then, and the report says so."""
    lake.written.append(ROWS)
    lake.written.overwrite(ROWS)
    oldest = lake.written.metadata.snapshots[0].manifest_list
    Path(oldest.removeprefix("file://")).unlink()
    found = lake.survey()
    assert found.live.files == 1
    assert (found.old, found.unknown) == (None, None)
    assert [note for note in found.notes if "were not compared" in note]


def test_a_folder_without_metadata_is_no_table(lake: Lake) -> None:
    """The message says it."""
    with pytest.raises(PermanentError, match="no Iceberg table"):
        lake.survey(lake.by_path(f"{lake.folder}/data"))


@pytest.mark.parametrize("gone", ["snap-*.avro", "*-m0.avro"])
def test_a_table_without_a_manifest_has_no_known_zeros(lake: Lake, gone: str) -> None:
    """Its files cannot be told, so it is no table with nothing to do."""
    lake.written.append(ROWS)
    for file in (lake.folder / "metadata").glob(gone):
        file.unlink()
    with pytest.raises(PermanentError, match="the files of its newest version cannot be told"):
        lake.survey()
