"""Deleted keys that are written again while a compaction is under way. Hudi itself would show them twice."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Ended, Granted, Lost, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from tests.integration.executors.shared_orders import SharedOrders
from tests.integration.iceberg.deletions import suffering
from tests.support.hudi.orders import Orders

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


class Deleting(SharedOrders):
    """Orders that are deleted, too."""

    def _options(self) -> dict[str, str]:
        return Orders._options(self)

    def delete(self, *keys: str) -> None:
        """Delete these orders, which need not be there."""
        self.versions += 1
        rows = [(key, "", self.versions, f"p{int(key[1:]) % 3}") for key in keys]
        dataclasses.replace(self, conf={**self.conf, "hoodie.datasource.write.operation": "delete"})._save(rows)
        for key in keys:
            self.expected.pop(key, None)


@pytest.fixture
def table(orders: Orders) -> Deleting:
    """Return a table whose first order is deleted in a log file."""
    table = Deleting(**{field.name: getattr(orders, field.name) for field in dataclasses.fields(orders)})
    table.delete("o0")
    return table


def committing(driver: Driver, table: Orders, run: str) -> Outcome:
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


def test_a_plan_that_waited_for_its_execution_is_withdrawn_too(driver: Driver, table: Deleting) -> None:
    """Another client has made it, or an earlier run."""
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
    assert "set options.returning_keys: trusted" in outcome.reason
    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan.instant), Yielded)
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
