"""A table of a Hadoop catalog, found by its folder alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyiceberg.table import StaticTable

from lakewarden.executors.contract import Failed, Succeeded
from lakewarden.planners.model.instant import Service
from tests.support.iceberg.trips import QUIET

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class _ByPath:
    folder: Path

    @property
    def assigned(self) -> Mapping[str, Any]:
        return {"format": "iceberg", "location": str(self.folder), "table_options": QUIET}


def _written(spark: Any, folder: Path, *, commits: int = 5) -> _ByPath:
    """Make a table of so many commits of six rows."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.files", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.files.type", "hadoop")
    session.conf.set("spark.sql.catalog.files.warehouse", str(folder))
    session.sql("create table files.db.trips (id bigint, v string) using iceberg")
    for start in range(0, 6 * commits, 6):
        session.sql(f"insert into files.db.trips select /*+ COALESCE(1) */ id, 'x' from range({start}, {start + 6})")
    return _ByPath(folder / "db" / "trips")


def test_nothing_is_committed_beside_a_newer_version_that_the_hint_does_not_lead_to(
    driver: Driver, spark: Any, tmp_path: Path
) -> None:
    """The hint was restored from a backup, and versions between were deleted. Iceberg's client would commit version 4
    beside version 9.
    """
    table = _written(spark, tmp_path, commits=8)
    metadata = table.folder / "metadata"
    (metadata / "version-hint.text").write_text("3")
    (metadata / ".version-hint.text.crc").unlink()
    for number in range(4, 9):
        (metadata / f"v{number}.metadata.json").unlink()
    before = sorted(path.name for path in metadata.iterdir())
    for service, options in ((Service.COMPACTION, {}), (Service.ARCHIVE, {}), (Service.ORPHANS, {"unknown_for": "0s"})):
        outcome = driver.carry_out(table, service, **options)
        assert isinstance(outcome, Failed), outcome
        assert "v9.metadata.json is a newer version of this table than v3.metadata.json" in str(outcome)
    assert sorted(path.name for path in metadata.iterdir()) == before


def test_a_table_is_compacted_by_its_folder(driver: Driver, spark: Any, tmp_path: Path) -> None:
    """Its rows are the same afterwards, in one file, by a commit with the run's id."""
    table = _written(spark, tmp_path)
    run = driver.submit(table, Service.COMPACTION)

    assert isinstance(driver.finish(run), Succeeded)
    version = (table.folder / "metadata" / "version-hint.text").read_text()
    found = StaticTable.from_metadata(str(table.folder / "metadata" / f"v{version}.metadata.json"))
    current = found.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary.additional_properties["lakewarden.run-id"] == run
    [file] = [re.sub(r"^file:", "", path) for path in found.inspect.data_files()["file_path"].to_pylist()]
    rows = duckdb.execute("select id, v from read_parquet(?) order by id", [file]).fetchall()
    assert rows == [(id_, "x") for id_ in range(30)]
