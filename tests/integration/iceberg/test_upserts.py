"""Rewrites beside jobs that delete by equality, as Flink's upserts do. No deleted row comes back, and no row is there
twice.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter
from pyiceberg.schema import Schema
from pyiceberg.table import update

from lakewarden.executors.contract import Ended, Failed, Granted, Lost, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.format import ICEBERG
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.integration.iceberg.deletions import suffering
from tests.support.iceberg.iceberg_upserts import UpsertJob, delete_files, rows_by_the_spec
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from lakewarden.planners.model.view import TableView
    from tests.support.iceberg.trips import Lake, Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _job(trips: Trips, folder: Path, *, spec: int = 0, places: tuple[str, ...] = ("p",)) -> UpsertJob:
    """Start a job on the table."""
    spark = trips.lake.spark
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, trips.sql)
    return UpsertJob(jvm=spark._jvm, java=java, folder=folder, spec=spec, places=places)


def view_of_trips(trips: Trips) -> TableView:
    """Return what the daemon's reader sees of a table that has a clean alone."""
    assigned = trips.assigned
    table = Table(
        id=TableId("trips"),
        format="iceberg",
        location=assigned["location"],
        catalog=TypeAdapter(Catalog).validate_python(assigned["catalog"]),
        policies={Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=CleanOptions())},
    )
    return ICEBERG.observe(table, LocalStorage(), None, now=SystemClock().now()).view


def _rows(trips: Trips) -> dict[int, str]:
    """Return the table's rows by the rules of the table spec. None is there twice."""
    rows = rows_by_the_spec(trips.read())
    found = {id_: value for id_, _, value in rows}
    assert len(found) == len(rows), "a row was found twice"
    return found


def _read_by_spark(trips: Trips) -> Mapping[int, str]:
    rows = trips.lake.spark.sql(f"select id, v from {trips.sql}").collect()
    assert len({row["id"] for row in rows}) == len(rows), "a row was found twice"
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.core
def test_a_row_that_is_deleted_while_everything_is_rewritten_stays_deleted(
    driver: Driver, trips: Trips, tmp_path: Path
) -> None:
    """Between the plan of a rewrite of all files and its end there is a checkpoint with deletes alone, then one with
    inserts. One older file is left out, and the rewrite need not yield.
    """
    job = _job(trips, tmp_path)
    job.upsert((3, 1, "b"))
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    job.delete((0, 0, ""), (1, 1, ""))
    job.insert((1000, 0, "new"))
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)

    expected = {key: value for key, value in trips.expected.items() if key not in {0, 1}} | {3: "b", 1000: "new"}
    assert trips.data_files() == 4
    assert _rows(trips) == expected
    assert _read_by_spark(trips) == expected


@pytest.mark.core
def test_upserts_by_an_older_spec_still_reach_the_rows_that_were_rewritten(
    driver: Driver, trips: Trips, tmp_path: Path
) -> None:
    """The table gets another partition spec while a job runs. The job continues with its own spec, and the rewrite
    comes in between.
    """
    job = _job(trips, tmp_path)
    job.upsert((0, 0, "a"), (1, 1, "b"))
    trips.read().update_spec().add_identity("v").commit()
    outcome = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(outcome, Succeeded)
    job.upsert((0, 0, "c"), (2, 0, "d"))

    expected = trips.expected | {0: "c", 1: "b", 2: "d"}
    assert _rows(trips) == expected
    assert _read_by_spark(trips) == expected


def test_deletes_of_no_partition_hold_for_all_of_them(driver: Driver, lake: Lake, tmp_path: Path) -> None:
    """A job that started before the table was partitioned deletes by a spec without partitions."""
    table = lake.trips()
    table.append(commits=6, partitions=1)
    job = _job(table, tmp_path)
    job.java.updateSpec().removeField("p").commit()
    table.read().append(table.read().scan().to_arrow().slice(0, 0))
    unpartitioned = max(job.java.specs().keySet())
    job.java.updateSpec().addField("p").commit()
    job.insert((100, 1, "stays"), (101, 1, "goes"))
    _job(table, tmp_path, spec=unpartitioned, places=()).delete((101, 1, ""))
    outcome = driver.carry_out(table, Service.COMPACTION, remove_dangling_deletes=True)
    assert isinstance(outcome, Succeeded)

    expected = table.expected | {100: "stays"}
    assert _rows(table) == expected
    assert _read_by_spark(table) == expected


def test_a_rewrite_that_would_drop_newer_deletes_yields(driver: Driver, lake: Lake, tmp_path: Path) -> None:
    """The only file of a table is rewritten for its deletes, so no file from before the plan is left. Of two
    checkpoints with deletes alone Iceberg would drop the first. No file of ours stays behind.
    """
    table = lake.trips()
    table.append(partitions=1)
    job = _job(table, tmp_path)
    job.delete((0, 0, ""))
    files = table.files_on_disk()
    run = driver.submit(table, Service.COMPACTION, delete_file_threshold=1)
    driver.advance(run, to=Step.COMMIT)
    job.delete((1, 0, ""))
    job.delete((2, 0, ""))
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "deletes be lost" in outcome.reason
    assert _rows(table) == _read_by_spark(table) == {3: "v3", 4: "v4"}
    assert table.files_on_disk() == files
    assert _metadata_on_disk(table) == _metadata_known(table)

    assert isinstance(driver.carry_out(table, Service.COMPACTION, delete_file_threshold=1), Succeeded)
    assert _rows(table) == _read_by_spark(table) == {3: "v3", 4: "v4"}


def test_what_is_committed_while_we_look_is_validated_anew(
    driver: Driver, trips: Trips, tmp_path: Path, worker_faults: Path
) -> None:
    """A job commits between our check of our own new snapshot and the exchange. That attempt fails, the next one sees
    the job's commit, and no file of the first is left.
    """
    job = _job(trips, tmp_path)
    job.upsert((3, 1, "b"))
    with suffering(worker_faults, "proposed", "hold", service="compaction") as held:
        run = driver.submit(trips, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(held.exists)
        job.delete((0, 0, ""), (1, 1, ""))
        job.upsert((2, 0, "b"), (1000, 0, "new"))
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)

    gone, new = {0, 1}, {2: "b", 3: "b", 1000: "new"}
    expected = {key: value for key, value in trips.expected.items() if key not in gone} | new
    assert _rows(trips) == _read_by_spark(trips) == expected
    assert len(trips.signed_by(run)) == 1
    assert _metadata_on_disk(trips) == _metadata_known(trips)


@pytest.mark.faults
def test_a_jvm_that_dies_before_the_exchange_has_changed_nothing(
    driver: Driver, trips: Trips, tmp_path: Path, worker_faults: Path
) -> None:
    """Kill -9 comes when the snapshot is written. The table does not refer to it, a job continues, and so does the next
    run.
    """
    job = _job(trips, tmp_path)
    job.upsert((3, 1, "b"))
    with suffering(worker_faults, "proposed", "crash", service="compaction"):
        run = driver.submit(trips, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        job.delete((0, 0, ""), (1, 1, ""))
        job.insert((1000, 0, "new"))
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    expected = {key: value for key, value in trips.expected.items() if key not in {0, 1}} | {3: "b", 1000: "new"}
    assert _rows(trips) == expected
    assert trips.signed_by(run) == []
    driver.until_ready()

    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert _rows(trips) == _read_by_spark(trips) == expected


def test_needless_deletes_go_where_files_were_rewritten(driver: Driver, trips: Trips) -> None:
    """Deletes for removed files are left out, those for remaining files are kept, and no row changes."""
    trips.delete(*(10 * commit + partition for commit in range(6) for partition in (0, 1)))
    before = delete_files(trips.read())
    time.sleep(1.2)  # quiet_for
    outcome = driver.carry_out(trips, Service.COMPACTION, max_files=7, remove_dangling_deletes=True)

    assert isinstance(outcome, Succeeded)
    left = delete_files(trips.read())
    assert (len(before), len(left), outcome.figures["files_rewritten"]) == (12, 6, 6)
    assert left.items() <= before.items()
    assert _rows(trips) == _read_by_spark(trips) == trips.expected


@pytest.mark.faults
def test_beside_a_job_that_upserts_and_deletes_no_row_comes_back_or_is_there_twice(
    driver: Driver, lake: Lake, tmp_path: Path
) -> None:
    """A job commits at random, half of the time only deletes, while everything is rewritten again and again. In the
    middle the table gets another partition spec, which the job does not know. None of its commits fails.
    """
    table, chance = lake.trips(), random.Random(7)
    job, expected, over = _job(table, tmp_path), dict[int, str](), threading.Event()

    def commit() -> int:
        while not over.is_set():
            ids = chance.sample(range(40), 6)
            if chance.random() < 0.5:
                job.delete(*((id_, id_ % 2, "") for id_ in ids))
                expected.update(dict.fromkeys(ids, ""))
            else:
                job.upsert(*((id_, id_ % 2, f"{job.checkpoints}") for id_ in ids))
                expected.update(dict.fromkeys(ids, f"{job.checkpoints - 1}"))
            over.wait(chance.random())
        return job.checkpoints

    ended: list[Outcome] = []
    with ThreadPoolExecutor() as one:
        commits = one.submit(commit)
        try:
            while job.checkpoints < 40 and not commits.done():
                ended.append(driver.carry_out(table, Service.COMPACTION, min_input_files=2, delete_file_threshold=1))
                if job.checkpoints > 15 and len(table.read().specs()) == 1:
                    table.read().update_spec().add_identity("v").commit()
        finally:
            over.set()
    assert commits.result() >= 40
    assert sum(isinstance(outcome, Succeeded) for outcome in ended) > 5
    assert _rows(table) == _read_by_spark(table) == {id_: value for id_, value in expected.items() if value}


def _metadata_on_disk(trips: Trips) -> set[str]:
    """Return the names of the Avro files beside the table's metadata."""
    folder = Path(re.sub(r"^file:/*", "/", trips.read().location()), "metadata")
    return {path.name for path in folder.glob("*.avro")}


def _metadata_known(trips: Trips) -> set[str]:
    """Return the names of the manifest lists and manifests of every snapshot."""
    table = trips.read()
    known = {one.manifest_list for one in table.snapshots()}
    known |= {manifest.manifest_path for one in table.snapshots() for manifest in one.manifests(table.io)}
    return {Path(path).name for path in known}


@pytest.mark.parametrize("later", ["", "w"])
def test_deletes_by_a_dropped_column_hold_rewrites_and_clean_back_until_the_column_is_there_again(
    driver: Driver, trips: Trips, tmp_path: Path, later: str
) -> None:
    """The way out is the one that the blocker tells: no deleted row comes back, and a `later` column keeps its
    values.
    """
    _job(trips, tmp_path).upsert((3, 1, "b"))
    kept = ", 'kept'" if later else ""
    run_sql = trips.lake.spark.sql
    run_sql(f"alter table {trips.sql} drop column id")
    if later:
        run_sql(f"alter table {trips.sql} add column {later} string")
    run_sql(f"insert into {trips.sql} values (1, 'new'{kept})")
    failed = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(failed, Failed), failed
    assert "Cannot find required field for ID 1" in failed.reason

    [blocker] = view_of_trips(trips).blockers
    assert {Service.COMPACTION, Service.CLUSTERING, Service.TABLE_STATS, Service.CLEAN} == blocker.services
    assert str(tmp_path) in blocker.reason
    assert "deletes rows by the column id (field 1), which was dropped" in blocker.reason

    [told] = re.findall(r"with pyiceberg: (table.*?)\), run compaction with", blocker.remedy)
    eval(told, {**vars(update), "Schema": Schema, "table": trips.read()})
    assert view_of_trips(trips).blockers == ()
    time.sleep(1.2)  # quiet_for
    now = trips.read().current_snapshot()
    assert now is not None
    outcome: Outcome | None = None
    while not isinstance(outcome, NothingToDo):
        asked = driver.submit(
            trips,
            Service.COMPACTION,
            rewrite_all=f"{now.sequence_number}-{now.snapshot_id}",
            remove_dangling_deletes=True,
        )
        outcome = driver.finish(asked)
        assert isinstance(outcome, Succeeded | NothingToDo), outcome
    assert delete_files(trips.read()) == {}
    back = "id" if not later else "dropped_1"
    run_sql(f"alter table {trips.sql} drop column {back}")
    assert view_of_trips(trips).blockers == ()
    expected = [value for key, value in trips.expected.items() if key != 3] + ["b", "new"]
    assert sorted(row["v"] for row in run_sql(f"select v from {trips.sql}").collect()) == sorted(expected)
    if later:
        assert run_sql(f"select v from {trips.sql} where {later} = 'kept'").collect()[0]["v"] == "new"


def test_deletes_by_a_dropped_column_on_a_branch_or_a_tag_hold_clean_back_until_their_rows_are_written_anew(
    driver: Driver, trips: Trips, tmp_path: Path
) -> None:
    """Clean would take the last snapshot of the branch that an engine can read. Main is served meanwhile."""
    first = trips.read().current_snapshot()
    assert first is not None
    trips.read().manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    job = _job(trips, tmp_path)
    job.branch = "audit"
    job.upsert((3, 1, "b"))
    run_sql = trips.lake.spark.sql
    run_sql(f"alter table {trips.sql} drop column id")
    assert view_of_trips(trips).blockers == (), "the head of the branch is read by its id"

    run_sql(f"insert into {trips.sql}.branch_audit values (1, 'new')")
    head = trips.read().snapshot_by_name("audit")
    assert head is not None
    trips.read().manage_snapshots().create_tag(head.snapshot_id, "v1").commit()
    by_branch, by_tag = view_of_trips(trips).blockers
    assert by_branch.services == by_tag.services == {Service.CLEAN}
    assert " of branch 'audit' deletes rows by the column id (field 1), which was dropped" in by_branch.reason
    assert " of tag 'v1' deletes rows by the column id (field 1), which was dropped" in by_tag.reason

    [told] = re.findall(r"with pyiceberg: (table.*?)\), rewrite the rows", by_branch.remedy)
    eval(told, {**vars(update), "table": trips.read()})
    trips.read().manage_snapshots().create_branch(head.snapshot_id, "of_v1").commit()
    for branch in ("audit", "of_v1"):
        assert "INSERT OVERWRITE table.branch_name SELECT * FROM table.branch_name" in by_tag.remedy
        run_sql(f"insert overwrite {trips.sql}.branch_{branch} select * from {trips.sql}.branch_{branch}")
    moved = trips.read().manage_snapshots().remove_tag("v1")
    moved.create_tag(trips.read().refs()["of_v1"].snapshot_id, "v1").commit()
    run_sql(f"alter table {trips.sql} drop column id")
    assert view_of_trips(trips).blockers == ()
    expected = sorted([value for key, value in trips.expected.items() if key != 3] + ["b", "new"])
    for ref in ("audit", "v1"):
        found = run_sql(f"select v from {trips.sql} version as of '{ref}'").collect()
        assert sorted(row["v"] for row in found) == expected
