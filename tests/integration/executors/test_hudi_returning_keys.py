"""Deleted keys that are written again while a compaction is under way. Hudi itself would show them twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    Outcome,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.instant import RunId, Service, Step
from tests.integration.executors.deleting_orders import Deleting
from tests.integration.executors.test_hudi_clustering import AT_ONCE, ONE_FILE_FOR_EACH_BATCH, THE_WRITER_GIVES_WAY
from tests.integration.executors.test_hudi_log_compaction import TWO_BLOCKS
from tests.integration.iceberg.deletions import suffering
from tests.support.hudi.orders import Orders

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


OLD = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
WITHOUT_KEYS = {"hoodie.populate.meta.fields": "false"}
BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "order_id",
}
WITHOUT_PARTITIONS = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}


@pytest.fixture
def table(orders: Orders) -> Deleting:
    """Return a table whose first order is deleted in a log file."""
    table = Deleting.of(orders)
    table.delete("o0")
    return table


def committing(driver: Driver, table: Orders, run: RunId) -> Outcome:
    """Grant the commit, and return how the run ends."""
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    return driver.next(run, Ended).outcome


def check_rows(driver: Driver, table: Deleting) -> None:
    """Fail unless each row is there once, after a next write and a next compaction, too."""
    table.write(keys=1)
    assert table.found() == table.expected
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(keys=1)
    table.check_rows()


def left_out(outcome: Outcome) -> tuple[int, int]:
    """Return how many file groups a compaction has committed, and how many it has left out."""
    assert isinstance(outcome, Succeeded), outcome
    return int(outcome.figures["file_groups"]), int(outcome.figures.get("file_groups_left_out", 0))


def base_files(table: Deleting, instant: str) -> set[str]:
    """Return the partitions with a base file of an instant."""
    return {file.parent.name for file in table.path.rglob(f"*_{instant}.parquet")}


@pytest.mark.core
def test_a_key_that_returns_between_plan_and_commit_is_there_once(driver: Driver, table: Deleting) -> None:
    """The compaction leaves out its file group, which stays as it was. The next one takes the key in, although nobody
    has written to its partition since.
    """
    table.delete("o1")
    table.add("p2", "o2")
    run = driver.submit(table, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    table.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())

    assert left_out(committing(driver, table, run)) == (2, 1)

    assert base_files(table, plan.on_timeline) == {"p1", "p2"}
    assert table.plans_of(Service.COMPACTION) == set()
    assert table.read_by_spark() == table.found() == table.expected
    assert left_out(driver.carry_out(table, Service.COMPACTION)) == (1, 0)
    check_rows(driver, table)


def test_a_file_group_that_was_left_out_is_compacted_without_a_write_to_its_partition(
    driver: Driver, table: Deleting
) -> None:
    """Hudi plans a compaction in the partitions written to since the last one, and would forget it."""
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    with table.held("p2", "o2"):
        driver.pool.answer(run, Step.EXECUTE, Granted())
        assert left_out(committing(driver, table, run)) == (2, 1)

    assert left_out(driver.carry_out(table, Service.COMPACTION)) == (2, 0)
    table.write(keys=1)
    table.check_rows()


@pytest.mark.parametrize(
    ("writers", "first_job"), [("live", {}), ("none", {}), ("live", BUCKETS)], ids=["live", "by_night", "buckets"]
)
def test_a_key_that_returned_before_the_execution_of_a_plan_is_there_once_too(
    driver: Driver, table: Deleting, tmp_path: Path, writers: str, first_job: Mapping[str, str]
) -> None:
    """Another client has made it, or an earlier run. Writers that are off by day write again by night. The next job may
    have another index than the one that has named the files.
    """
    table = with_a_deleted_row(table, tmp_path / "waited", {}, first_job=first_job)
    table.writers = writers
    plan = driver.leave_planned(table, Service.COMPACTION)
    table.write(keys=1)

    assert left_out(driver.carry_out(table, Service.COMPACTION, instant=plan.instant)) == (0, 1)

    check_rows(driver, table)


def test_keys_that_stay_deleted_hinder_no_compaction(driver: Driver, table: Deleting) -> None:
    """Between plan and commit other keys are written, others are deleted, and the deleted key is deleted again."""
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    table.delete("o3", "o0")
    table.add("p1", "o1")
    driver.pool.answer(run, Step.EXECUTE, Granted())

    assert isinstance(committing(driver, table, run), Succeeded)

    check_rows(driver, table)


def test_a_file_group_that_a_write_in_flight_may_bring_a_key_back_to_is_left_out(
    driver: Driver, table: Deleting
) -> None:
    """It has looked for its keys before the commit, perhaps."""
    table.delete("o1")
    table.add("p2", "o2")
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    with table.held("p0", "o0"):
        driver.pool.answer(run, Step.EXECUTE, Granted())
        assert left_out(committing(driver, table, run)) == (1, 2)

    check_rows(driver, table)


def test_a_commit_that_leaves_out_a_file_group_and_is_killed_is_made_again(
    driver: Driver, table: Deleting, worker_faults: Path
) -> None:
    """Hudi deletes the new file of that file group right before it completes the instant. Here the test does that."""
    table.add("p2", "o2")
    with suffering(worker_faults, "executed", "crash", service="compaction"):
        run = driver.submit(table, Service.COMPACTION)
        plan = driver.advance(run, to=Step.EXECUTE)
        assert plan is not None
        table.write(keys=1)
        driver.pool.answer(run, Step.EXECUTE, Granted())
        driver.next(run, Lost)
    [deleted] = table.path.glob(f"p0/*_{plan.on_timeline}.parquet")
    deleted.unlink()
    assert table.read_by_spark() == table.expected
    driver.until_ready()

    table.silence(plan.instant)
    again = driver.carry_out(table, Service.COMPACTION, instant=plan.instant)

    assert left_out(again) == (2, 1)
    check_rows(driver, table)


def with_a_deleted_row(
    table: Deleting, path: Path, conf: Mapping[str, str], *, first_job: Mapping[str, str] | None = None
) -> Deleting:
    """Return another table of this kind, whose first order is deleted in a log file. A `first_job` with other options
    has made it.
    """
    made = dataclasses.replace(table, path=path, conf={**conf, **(first_job or {})}, expected={}, versions=0)
    made.write()
    made.conf = conf
    made.delete("o0")
    return made


def test_below_table_version_8_a_plan_stays_once_a_writer_has_appended_to_it(
    driver: Driver, table: Deleting, tmp_path: Path
) -> None:
    """The log file bears the time of the plan. Without the plan, 0.15 does not see its rows, and 1.2 compacts without
    them.
    """
    old = with_a_deleted_row(table, tmp_path / "old", OLD)
    run = driver.submit(old, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    old.add("p0", "o3")

    driver.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
    driver.next(run, Ended)

    assert old.read_by_spark() == old.expected
    assert isinstance(driver.carry_out(old, Service.COMPACTION, instant=plan.instant), Succeeded)
    check_rows(driver, old)


def test_below_table_version_8_a_key_that_returns_is_refused_by_name(
    driver: Driver, table: Deleting, tmp_path: Path
) -> None:
    """Nothing can be left out there. While the writers pause, the plan is carried out. The next one takes it in."""
    old = with_a_deleted_row(table, tmp_path / "old", OLD)
    run = driver.submit(old, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    old.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())

    outcome = committing(driver, old, run)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "key 'o0' was written again since its plan" in outcome.reason
    assert "declare options.returning_keys: trusted" in outcome.reason
    assert "lakewarden quarantine release sales.orders compaction" in outcome.reason
    old.write(keys=1)
    assert old.read_by_spark() == old.expected
    paused = dataclasses.replace(old, returning_keys="trusted")
    assert isinstance(driver.carry_out(paused, Service.COMPACTION, instant=plan.instant), Succeeded)
    assert isinstance(driver.carry_out(paused, Service.COMPACTION), Succeeded)
    old.write(keys=1)
    old.check_rows()


def test_a_table_that_does_not_store_its_keys_has_a_file_group_left_out_by_any_write(
    driver: Driver, table: Deleting, tmp_path: Path
) -> None:
    """Its rows do not say which keys were dropped."""
    virtual = with_a_deleted_row(table, tmp_path / "virtual", WITHOUT_KEYS)
    run = driver.submit(virtual, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    virtual.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())

    assert left_out(committing(driver, virtual, run)) == (0, 1)
    check_rows(driver, virtual)


def test_a_table_that_stores_no_keys_and_has_no_partitions_is_served_with_its_own_key_generator(
    driver: Driver, table: Deleting, tmp_path: Path
) -> None:
    """Hudi's default generator asks for partition fields, and no client could be made."""
    virtual = with_a_deleted_row(table, tmp_path / "virtual", {**WITHOUT_KEYS, **WITHOUT_PARTITIONS})
    virtual.write(keys=3)

    assert isinstance(driver.carry_out(virtual, Service.LOG_COMPACTION, **TWO_BLOCKS), Succeeded)
    virtual.check_rows()
    assert isinstance(driver.carry_out(virtual, Service.COMPACTION), Succeeded)
    virtual.check_rows()


def test_a_log_compaction_beside_a_key_that_returns_leaves_it_there_once(driver: Driver, table: Deleting) -> None:
    """It changes no base file."""
    table.write(keys=3)
    table.delete("o0")
    run = driver.submit(table, Service.LOG_COMPACTION, **TWO_BLOCKS)
    driver.advance(run, to=Step.EXECUTE)
    table.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())
    assert isinstance(committing(driver, table, run), Succeeded)

    check_rows(driver, table)


def test_a_clustering_beside_a_key_that_returns_leaves_it_there_once(driver: Driver, table: Deleting) -> None:
    """It gives way to the write that brings the key back. The next one takes the key in from the log file."""
    table.conf = {**table.conf, **ONE_FILE_FOR_EACH_BATCH, **THE_WRITER_GIVES_WAY}
    table.add("p0", "o30")
    table.delete("o0")
    run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    table.write(keys=1)
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Yielded)
    table.delete("o0")
    table.write(keys=1)

    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **AT_ONCE), Succeeded)
    check_rows(driver, table)
