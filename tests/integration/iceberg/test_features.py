"""Features of real tables: branches, staged snapshots, row lineage, a sort order, data in another place."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform

from lakewarden.executors.contract import Ended, Granted, NothingToDo, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.iceberg.iceberg_upserts import UpsertJob

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Lake, Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _job(trips: Trips, folder: Path, **other: Any) -> UpsertJob:
    spark = trips.lake.spark
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, trips.sql)
    return UpsertJob(jvm=spark._jvm, java=java, folder=folder, **other)


def test_a_branch_that_is_audited_meanwhile_is_published(driver: Driver, trips: Trips, tmp_path: Path) -> None:
    """After write and audit, the fast-forward succeeds. The compaction was at its commit, and comes after it."""
    java = _job(trips, tmp_path).java
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    java.manageSnapshots().createBranch("audit").commit()
    _job(trips, tmp_path, branch="audit").insert((1000, 0, "audited"))
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "branch 'audit' is ahead of main" in outcome.reason
    java.refresh()
    java.manageSnapshots().fastForwardBranch("main", "audit").commit()
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.found() == {**trips.expected, 1000: "audited"}


def test_a_branch_with_writers_of_its_own_keeps_its_rows(driver: Driver, trips: Trips, tmp_path: Path) -> None:
    """A branch that has left main gets upserts beside a compaction of main. No row of either changes, and neither
    fails.
    """
    java = _job(trips, tmp_path).java
    java.manageSnapshots().createBranch("audit").commit()
    job = _job(trips, tmp_path, branch="audit")
    job.insert((1000, 0, "of the branch"))
    trips.append()
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    job.upsert((0, 0, "changed there"))
    job.delete((1, 1, ""))
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    job.upsert((2, 0, "changed later"))
    assert trips.found() == trips.expected
    rows = trips.lake.spark.sql(f"select id, v from {trips.sql} version as of 'audit'").collect()
    at_first = {id_: value for id_, value in trips.expected.items() if id_ < 60 and id_ != 1}
    ours = {0: "changed there", 2: "changed later", 1000: "of the branch"}
    assert sorted((row["id"], row["v"]) for row in rows) == sorted((at_first | ours).items())


def test_what_is_staged_is_picked_after_a_compaction(driver: Driver, trips: Trips, tmp_path: Path) -> None:
    """A snapshot without a branch (`wap.id`) waits for its audit. The compaction does not prevent its publication."""
    job = _job(trips, tmp_path)
    staged = job.stage((1000, 0, "staged"))
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    job.java.refresh()
    job.java.manageSnapshots().cherrypick(staged).commit()

    assert trips.found() == {**trips.expected, 1000: "staged"}


def test_rows_keep_their_lineage_and_vectors_go_with_their_files(driver: Driver, lake: Lake) -> None:
    """In version 3 each row keeps its id and the sequence number of its last update, in the new file itself. The
    deletion vectors of removed files are removed too. Iceberg's rewrite of manifests would number the rows anew.
    """
    table = lake.trips()
    lake.spark.sql(f"alter table {table.sql} set tblproperties ('format-version' = '3')")
    for first in range(0, 30, 5):
        rows = ", ".join(f"({id_}, 0, 'v{id_}')" for id_ in range(first, first + 5))
        lake.spark.sql(f"insert into {table.sql} values {rows}")
    lake.spark.sql(
        f"merge into {table.sql} t using (select * from values (3), (4), (13), (14) as some(id)) s on t.id = s.id "
        "when matched and s.id in (4, 14) then delete when matched then update set v = 'u'"
    )
    before = _lineage(table)
    assert len(before) == 28
    assert isinstance(driver.carry_out(table, Service.ARCHIVE, small_manifests=5), NothingToDo)
    assert _lineage(table) == before
    time.sleep(1.2)  # quiet_for
    outcome = driver.carry_out(table, Service.COMPACTION)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["delete_files_removed"] != 0
    assert _lineage(table) == before
    [path] = [row["file_path"] for row in lake.spark.sql(f"select file_path from {table.sql}.files").collect()]
    file = pq.ParquetFile(re.sub(r"^file:/*", "/", path)).read(columns=["id", "_row_id"])
    assert dict(zip(*(file[name].to_pylist() for name in file.column_names), strict=True)) == {
        id_: row_id for id_, (row_id, _) in before.items()
    }


def _lineage(table: Trips) -> dict[int, tuple[int, int]]:
    rows = table.lake.spark.sql(f"select id, _row_id, _last_updated_sequence_number as s from {table.sql}").collect()
    return {row["id"]: (row["_row_id"], row["s"]) for row in rows}


def test_a_compaction_of_a_sorted_table_puts_each_file_in_order(driver: Driver, trips: Trips) -> None:
    """A compaction obeys the table's sort order, as Iceberg's own action does."""
    with trips.read().update_sort_order() as order:
        order.desc("v", IdentityTransform(), NullOrder.NULLS_LAST)
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)

    assert trips.found() == trips.expected
    for path in _data_files(trips):
        values = pq.ParquetFile(path).read(columns=["v"])["v"].to_pylist()
        assert values == sorted(values, reverse=True)


def test_data_outside_the_tables_folder_is_rewritten_where_it_is(driver: Driver, lake: Lake, tmp_path: Path) -> None:
    """New files go to the table's `write.data.path`."""
    table = lake.trips()
    table.read().transaction().set_properties({"write.data.path": str(tmp_path / "elsewhere")}).commit_transaction()
    table.append(commits=6)
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)

    assert table.found() == table.expected
    assert all(path.is_relative_to(tmp_path / "elsewhere") for path in _data_files(table))


def _data_files(trips: Trips) -> list[Path]:
    files = trips.read().inspect.data_files()["file_path"].to_pylist()
    return [Path(re.sub(r"^file:/*", "/", path)) for path in files]
