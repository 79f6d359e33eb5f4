"""A table is rolled back while a run commits: the rows of the rollback do not return, and no later row is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, Outcome, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering
from tests.support.paimon.paimon_orders import PaimonOrders
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

During = Callable[[Service, Callable[[], None]], Outcome]


@pytest.fixture
def after_the_last_look(driver: Driver, orders: PaimonOrders, worker_faults: Path) -> During:
    """Run a service, and act between its last look at the table and its commit."""

    def run(service: Service, act: Callable[[], None]) -> Outcome:
        with suffering(worker_faults, "proposed", "hold", service=service.value) as stands:
            run = driver.submit(orders, service)
            driver.advance(run, to=Step.COMMIT)
            driver.pool.answer(run, Step.COMMIT, Granted())
            eventually(stands.exists)
            act()
        return driver.next(run, Ended).outcome

    return run


@pytest.mark.parametrize("service", [Service.ARCHIVE, Service.COMPACTION])
@pytest.mark.parametrize("written_since", [False, True])
def test_a_rollback_after_the_last_look_takes_the_snapshot_back(
    orders: PaimonOrders, driver: Driver, after_the_last_look: During, service: Service, written_since: bool
) -> None:
    """Also if a writer has given its number to another commit since. The next run succeeds."""
    before, newest = orders.read(), orders.snapshots()[-1]["id"]
    orders.write([(1, "undone", "a"), (77, "undone", "a")])

    def roll_back() -> None:
        orders.roll_back(newest)
        if written_since:
            orders.write([(5, "redone", "a")])

    outcome = after_the_last_look(service, roll_back)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.UNKNOWN
    assert "rolled back" in outcome.reason
    since = [(5, "redone", "a")] if written_since else []
    left = sorted([row for row in before if not since or (row[0], row[2]) != (5, "a")] + since)
    assert orders.read() == left
    assert isinstance(driver.carry_out(orders, service), Succeeded)
    assert orders.read() == left


def test_an_archive_of_a_table_that_was_rolled_back_since_its_plan_merges_what_is_left(
    orders: PaimonOrders, driver: Driver
) -> None:
    """It is made from the newest snapshot."""
    before, newest = orders.read(), orders.snapshots()[-1]["id"]
    orders.write([(1, "undone", "a"), (77, "undone", "a")])
    run = driver.submit(orders, Service.ARCHIVE)
    driver.advance(run, to=Step.COMMIT)
    orders.roll_back(newest)
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert orders.read() == before


def test_snapshots_that_expire_after_the_last_look_do_not_stop_a_commit(
    orders: PaimonOrders, after_the_last_look: During
) -> None:
    """An expiry takes the oldest first, and a rollback the newest. So the new snapshot stays: it is the only one."""
    before = orders.read()

    def expire() -> None:
        for file in (orders.folder / "snapshot").glob("snapshot-*"):
            file.unlink()

    assert isinstance(after_the_last_look(Service.ARCHIVE, expire), Succeeded)
    assert [one["commitKind"] for one in orders.snapshots()] == ["COMPACT"]
    assert orders.read() == before
