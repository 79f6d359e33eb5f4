"""The statistics of a table on real Spark, as pyiceberg finds them in its metadata, and their later deletion."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, NothingToDo, Refused, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import EVERYTHING, Deletions
from tests.support.iceberg.trips import Trips

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _distinct(trips: Trips) -> dict[int, int]:
    """Return the number of distinct values in each column of the current snapshot, by its field id."""
    table = trips.read()
    current = table.current_snapshot()
    assert current is not None
    (found,) = [one for one in table.metadata.statistics if one.snapshot_id == current.snapshot_id]
    return {blob.fields[0]: int((blob.properties or {})["ndv"]) for blob in found.blob_metadata}


def _files(table: Deletions) -> set[Path]:
    """Return the statistics files on disk."""
    below = (table.folder / "metadata").iterdir()
    return {path for path in below if re.search(r"\.stats$|^partition-stats-", path.name)}


def test_statistics_are_written_first_and_named_by_the_table_in_one_commit(driver: Driver, trips: Trips) -> None:
    """The number of distinct values is the one that the writers know. The commit adds no snapshot, and an append in
    between loses nothing.
    """
    trips.delete(1, 2)
    table = Deletions(trips)
    snapshots, pointer = table.snapshots(), trips.read().metadata_location
    run = driver.submit(trips, Service.TABLE_STATS)
    driver.advance(run, to=Step.COMMIT)
    assert trips.read().metadata_location == pointer
    assert len(_files(table)) == 2

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["columns"] == 3
    assert table.snapshots() == snapshots
    assert _distinct(trips) == {1: len(trips.expected), 2: 2, 3: len(set(trips.expected.values()))}
    (named,) = [one.statistics_path for one in trips.read().metadata.statistics]
    assert f"-lakewarden-{run}.stats" in named
    assert len(trips.read().metadata.partition_statistics) == 1
    assert isinstance(driver.carry_out(trips, Service.TABLE_STATS), NothingToDo)
    assert trips.found() == trips.expected


def test_statistics_go_with_their_snapshot(driver: Driver, trips: Trips) -> None:
    """An expiry deletes both files. The statistics of the remaining snapshots stay."""
    table = Deletions(trips)
    assert isinstance(driver.carry_out(trips, Service.TABLE_STATS, columns=["id"]), Succeeded)
    first = _files(table)
    trips.append()
    assert isinstance(driver.carry_out(trips, Service.TABLE_STATS, columns=["id"]), Succeeded)
    assert _distinct(trips) == {1: len(trips.expected)}
    assert len(_files(table)) == 4

    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert len(_files(table)) == 2
    assert not first & _files(table)
    assert _distinct(trips) == {1: len(trips.expected)}
    assert trips.found() == trips.expected


def test_counts_by_partition_add_up_across_two_specs(driver: Driver, trips: Trips) -> None:
    """Iceberg's counts from older statistics leave out, or count twice, what another spec has (iceberg#17915)."""
    for change in ("nothing", "spec", "append", "delete"):
        if change == "spec":
            trips.read().update_spec().remove_field("p").add_identity("v").commit()
        if change in ("spec", "append"):
            trips.append(partitions=1, rows=2)
        if change == "delete":
            trips.lake.spark.sql(f"delete from {trips.sql} where p = 1")  # whole files of the older spec
            trips.expected = {id_: v for id_, v in trips.expected.items() if id_ % 2 == 0 or id_ >= 60}
        outcome = driver.carry_out(trips, Service.TABLE_STATS, columns=["id"])
        assert isinstance(outcome, Succeeded), outcome
        current = trips.read().current_snapshot()
        assert current is not None
        by_snapshot = {one.snapshot_id: one for one in trips.read().metadata.partition_statistics}
        path = re.sub(r"^file:/*", "/", by_snapshot[current.snapshot_id].statistics_path)
        counts = pq.read_table(path)
        rows = counts["data_record_count"].to_pylist()
        assert min(rows) >= 0, (change, rows)
        assert min(counts["data_file_count"].to_pylist()) >= 0, change
        assert sum(rows) == len(trips.expected), (change, rows)


def test_counts_by_partition_that_are_not_those_of_the_snapshot_are_left_out(driver: Driver, trips: Trips) -> None:
    """A writer has told a wrong number of rows. The distinct values are committed all the same."""
    file = Path(trips.read().metadata_location.removeprefix("file:"))
    file.write_text(file.read_text().replace('"total-records":"60"', '"total-records":"61"'))
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    outcome = driver.carry_out(trips, Service.TABLE_STATS, columns=["id"])
    assert isinstance(outcome, Succeeded), outcome
    assert _distinct(trips) == {1: 60}
    assert trips.read().metadata.partition_statistics == []
    assert len(_files(Deletions(trips))) == 1


def test_what_was_not_committed_is_deleted(driver: Driver, trips: Trips) -> None:
    """An append between the steps does not conflict. After a refused commit the table is not changed, and no file is
    left.
    """
    run = driver.submit(trips, Service.TABLE_STATS)
    driver.advance(run, to=Step.COMMIT)
    trips.append()
    pointer = trips.read().metadata_location
    driver.pool.answer(run, Step.COMMIT, Refused(reason="the table is paused"))
    driver.next(run, Ended)
    assert trips.read().metadata_location == pointer
    assert not _files(Deletions(trips))

    beside = driver.submit(trips, Service.TABLE_STATS)
    driver.advance(beside, to=Step.COMMIT)
    trips.append()
    driver.pool.answer(beside, Step.COMMIT, Granted())
    assert isinstance(driver.next(beside, Ended).outcome, Succeeded)
    assert len(trips.read().metadata.statistics) == 1
    assert trips.found() == trips.expected

    wrong = driver.carry_out(trips, Service.TABLE_STATS, columns=["nobody"])
    assert isinstance(wrong, Failed)
    assert wrong.kind is FailureKind.PERMANENT


def test_columns_that_differ_only_by_case_are_counted_and_compacted(driver: Driver, lake: Lake) -> None:
    """Spark takes such columns for one unless it is told. Iceberg's schemas do not."""
    names = ("id", "Note", "note")
    types = (LongType(), StringType(), StringType())
    columns = [NestedField(one, name, type_) for one, (name, type_) in enumerate(zip(names, types, strict=True), 1)]
    created = lake.catalog.create_table(("db", "by_case"), schema=Schema(*columns))
    for first in (0, 2, 4):
        arrays = [pa.array([first, first + 1]), pa.array(["a", "b"]), pa.array(["c", "c"])]
        created.append(pa.Table.from_arrays(arrays, names=names))
    table = Trips(lake=lake, name="by_case")
    rows = sorted(map(str, table.read().scan().to_arrow().to_pylist()))

    counted = driver.carry_out(table, Service.TABLE_STATS)
    assert isinstance(counted, Succeeded), counted
    assert _distinct(table) == {1: 6, 2: 2, 3: 1}

    time.sleep(1.2)  # quiet_for
    compacted = driver.carry_out(table, Service.COMPACTION, min_input_files=2)
    assert isinstance(compacted, Succeeded), compacted
    assert table.data_files() == 1
    assert sorted(map(str, table.read().scan().to_arrow().to_pylist())) == rows
