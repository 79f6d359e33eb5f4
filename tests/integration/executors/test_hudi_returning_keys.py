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
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.step import Step
from tests.integration.executors.deleting_orders import Deleting
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


@pytest.mark.core
def test_a_key_that_returns_between_plan_and_commit_is_there_once(driver: Driver, table: Deleting) -> None:
    """The plan is withdrawn. The next one takes the key in."""
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    table.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())

    outcome = committing(driver, table, run)

    assert isinstance(outcome, Yielded)
    assert "key 'o0' was written again" in outcome.reason
    assert table.plans_of(Service.COMPACTION) == set()
    check_rows(driver, table)


@pytest.mark.parametrize(
    ("writers", "first_job"), [("live", {}), ("none", {}), ("live", BUCKETS)], ids=["live", "by_night", "buckets"]
)
def test_a_plan_that_waited_for_its_execution_is_withdrawn_too(
    driver: Driver, table: Deleting, tmp_path: Path, writers: str, first_job: Mapping[str, str]
) -> None:
    """Another client has made it, or an earlier run. Writers that are off by day write again by night. The next job may
    have another index than the one that has named the files.
    """
    table = with_a_deleted_row(table, tmp_path / "waited", {}, first_job=first_job)
    table.writers = writers
    plan = driver.leave_planned(table, Service.COMPACTION)
    table.write(keys=1)

    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan.instant), Yielded)

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


def test_a_write_in_flight_that_may_bring_a_key_back_is_waited_for(driver: Driver, table: Deleting) -> None:
    """It has looked for its keys before the commit, perhaps. The run yields, and says what to do. The plan stays for
    the next run, which judges what the write has brought.
    """
    run = driver.submit(table, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    with table.held("p0", "o0"):
        driver.pool.answer(run, Step.EXECUTE, Granted())
        outcome = committing(driver, table, run)

    assert isinstance(outcome, Yielded)
    assert "another index, and declare it (options.returning_keys)" in outcome.reason
    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan.instant), Yielded)
    check_rows(driver, table)


def test_a_plan_that_cannot_be_withdrawn_is_not_executed_again(driver: Driver, table: Deleting) -> None:
    """The run says which write is in the way. The next one tries no more than to withdraw the plan."""
    plan = driver.leave_planned(table, Service.COMPACTION)
    table.write(keys=1)
    with table.held("p1", "o1") as write:
        first = driver.carry_out(table, Service.COMPACTION, instant=plan.instant)
        again = driver.carry_out(table, Service.COMPACTION, instant=plan.instant)

        assert isinstance(first, Yielded)
        assert "key 'o0' was written again since its plan" in first.reason
        for outcome in (first, again):
            assert isinstance(outcome, Yielded)
            assert f"cannot be withdrawn while write {write.time} is in flight" in outcome.reason
            assert "options.returning_keys" not in outcome.reason
        assert table.timeline("*.compaction.inflight") == []
    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan.instant), Yielded)
    assert table.plans_of(Service.COMPACTION) == set()
    check_rows(driver, table)


def test_a_withdrawal_that_is_killed_is_made_again(driver: Driver, table: Deleting, worker_faults: Path) -> None:
    """The plan is pending, and the next run finds the same."""
    with suffering(worker_faults, "withdrawing", "crash", service="compaction"):
        run = driver.submit(table, Service.COMPACTION)
        driver.advance(run, to=Step.EXECUTE)
        table.write(keys=1)
        driver.pool.answer(run, Step.EXECUTE, Granted())
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    [plan] = table.plans_of(Service.COMPACTION)
    driver.until_ready()

    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan, predecessor_dead=True), Yielded)

    check_rows(driver, table)


def test_a_later_withdrawal_that_is_killed_is_made_again_too(
    driver: Driver, table: Deleting, worker_faults: Path
) -> None:
    """The first run has executed the plan, and a write is in the way of its withdrawal. The second one is killed after
    it has undone that attempt, and before it has removed the plan.
    """
    run = driver.submit(table, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    table.write(keys=1)
    with table.held("p1", "o1"):
        driver.pool.answer(run, Step.EXECUTE, Granted())
        assert isinstance(committing(driver, table, run), Yielded)
        assert len(table.timeline("*.compaction.inflight")) == 1
    with suffering(worker_faults, "withdrawing", "crash", service="compaction"):
        again = driver.submit(table, Service.COMPACTION, instant=plan.instant)
        driver.advance(again, to=Step.EXECUTE)
        driver.pool.answer(again, Step.EXECUTE, Granted())
        driver.next(again, Lost)
    assert table.timeline("*.compaction.inflight") == []
    assert table.plans_of(Service.COMPACTION) == {plan.instant}
    assert table.read_by_spark() == table.expected
    driver.until_ready()

    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan.instant, predecessor_dead=True), Yielded)

    assert table.plans_of(Service.COMPACTION) == set()
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
    """The plan cannot be withdrawn. While the writers pause, it is carried out, and the next one takes the key in."""
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


def test_a_table_that_does_not_store_its_keys_has_its_plan_withdrawn_by_any_write(
    driver: Driver, table: Deleting, tmp_path: Path
) -> None:
    """Its rows do not say which keys were dropped."""
    virtual = with_a_deleted_row(table, tmp_path / "virtual", WITHOUT_KEYS)
    run = driver.submit(virtual, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    virtual.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())

    outcome = committing(driver, virtual, run)

    assert isinstance(outcome, Yielded)
    assert "perhaps one of their keys (file group" in outcome.reason
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
