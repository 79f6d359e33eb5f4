"""A table has taken in files of another folder, as `add_files` and `migrate` do. No service deletes them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Failed, FailureKind, Succeeded
from lakewarden.planners.model.instant import Service
from tests.integration.iceberg.deletions import EVERYTHING, Deletions

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def test_files_that_add_files_took_in_are_rewritten_and_never_deleted(
    driver: Driver, lake: Lake, tmp_path: Path
) -> None:
    """They belong to the table that was migrated, and its owner may still read them. A compaction replaces them, and a
    clean would then delete them. The clean expires nothing and says so, or leaves the files if the owner has configured
    that.
    """
    old = tmp_path / "old"
    lake.spark.range(60).selectExpr("id", "cast(0 as int) p", "concat('v', id) v").repartition(6).write.parquet(
        str(old)
    )
    theirs = sorted(old.glob("*.parquet"))
    table = Deletions(lake.trips())
    table.trips.read().add_files([str(one) for one in theirs])
    rows = table.trips.expected
    rows.update(table.trips.found())
    assert len(rows) == 60

    assert isinstance(driver.carry_out(table, Service.COMPACTION, min_input_files=2), Succeeded)
    assert table.trips.data_files() == 1
    table.trips.append()
    for path in (*table.folder.rglob("*"), *theirs):
        os.utime(path, (time.time() - 10 * 86_400,) * 2)
    refused = driver.carry_out(table, Service.CLEAN, **EVERYTHING)
    assert isinstance(refused, Failed)
    assert refused.kind is FailureKind.PERMANENT
    assert "outside its folder" in refused.reason
    assert "outside: leave" in refused.reason
    assert len(table.snapshots()) == 3

    leaving = SimpleNamespace(
        assigned={**table.assigned, "table_options": {**table.assigned["table_options"], "outside": "leave"}}
    )
    assert isinstance(driver.carry_out(leaving, Service.CLEAN, **EVERYTHING), Succeeded)
    driver.carry_out(leaving, Service.ORPHANS, unknown_for="0s")
    assert len(table.snapshots()) == 1
    assert sorted(old.glob("*.parquet")) == theirs
    assert lake.spark.read.parquet(str(old)).count() == 60
    assert table.trips.found() == rows
