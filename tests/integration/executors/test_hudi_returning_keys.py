"""Keys that were deleted and come back while a compaction is under way. Hudi itself would show them twice."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Ended, Granted, Succeeded, Yielded
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from tests.support.hudi.orders import Orders

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


class Deleting(Orders):
    """Orders whose writer deletes, too."""

    def delete(self, *keys: str) -> None:
        """Delete these orders."""
        self.versions += 1
        rows = [(key, "", self.versions, f"p{int(key[1:]) % 3}") for key in keys]
        delete = {**self.conf, "hoodie.datasource.write.operation": "delete"}
        dataclasses.replace(self, conf=delete)._save(rows)
        for key in keys:
            del self.expected[key]


@pytest.fixture
def table(orders: Orders) -> Deleting:
    """Return a table whose first order is deleted in a log file."""
    table = Deleting(**{field.name: getattr(orders, field.name) for field in dataclasses.fields(orders)})
    table.delete("o0")
    return table


def test_a_key_that_returns_between_plan_and_commit_is_there_once(driver: Driver, table: Deleting) -> None:
    """The plan is withdrawn. The next one takes the key in."""
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    table.write(keys=1)
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    print(outcome)
    table.write(keys=1)
    assert table.found() == table.expected
    assert isinstance(outcome, Yielded)
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(keys=1)
    assert table.found() == table.expected


def test_keys_that_stay_deleted_hinder_no_compaction(driver: Driver, table: Deleting) -> None:
    """Other keys may be written, and the deleted one deleted again, between plan and commit."""
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    table.delete("o3")
    table.expected["o0"] = ""
    table.delete("o0")
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    print(outcome)
    assert isinstance(outcome, Succeeded)
    table.write()
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write()
    assert table.found() == table.expected
