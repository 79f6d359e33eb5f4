"""A table that was not cleaned for a long time is recovered in steps within its budget."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakewarden.executors.contract import Granted, NothingToDo, Succeeded
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import DeletionBudget, Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

BUDGET = 8
"""The budget in files. Each commit of the writer supersedes three."""

OPTIONS: dict[str, Any] = {"commits_retained": 2, "slices_from_commits": 4}


@pytest.fixture
def neglected(orders: Orders) -> Orders:
    """Make a copy-on-write table of 13 commits. Each of them writes three files anew."""
    path = orders.path.parent / "neglected"
    lock = {**orders.lock, "lock_key": f"{orders.lock['lock_key']}.neglected"}
    conf = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    table = dataclasses.replace(orders, path=path, lock=lock, conf=conf, expected={}, versions=0)
    for _ in range(13):
        table.write()
    return table


def seen(orders: Orders) -> TableView:
    """Return the table as the daemon sees it."""
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    policy = Policy(trigger=NumCommits(at_least=1), options=CleanOptions.model_validate(OPTIONS))
    table = Table(
        id=TableId("sales.orders"),
        format="hudi",
        location=orders.location,
        options=options,
        policies={Service.CLEAN: policy},
        budget=DeletionBudget(files=BUDGET),
    )
    return HUDI.observe(table, storage_for(table.location), None, now=SystemClock().now()).view


def test_a_first_clean_of_a_neglected_table_is_made_in_slices_beside_its_writer(
    neglected: Orders, driver: Driver
) -> None:
    """Each slice fits the budget. Together they come as far as one clean would, and no row is lost."""
    assert len(neglected.data_files()) == 3 * 13
    assert "11 commits are to be cleaned" in seen(neglected).notes[Service.CLEAN][0]
    slices: list[int] = []
    while Service.CLEAN in seen(neglected).notes:
        run = driver.submit(neglected, Service.CLEAN, most_files=BUDGET, **OPTIONS)
        plan = driver.advance(run, to=Step.COMMIT)
        assert plan is not None
        assert plan.files_to_delete is not None
        driver.pool.answer(run, Step.COMMIT, Granted())
        outcome = driver.finish(run)
        assert isinstance(outcome, Succeeded), outcome
        slices.append(plan.files_to_delete)
        assert neglected.found() == neglected.expected
        if len(slices) == 2:
            neglected.write()  # one more to be cleaned
        assert len(slices) < 12
    assert max(slices) <= BUDGET
    assert len(slices) >= 3
    assert seen(neglected).backlogs[Service.CLEAN].commits <= 4
    neglected.write()
    rest = driver.carry_out(neglected, Service.CLEAN, **OPTIONS)
    assert isinstance(rest, Succeeded | NothingToDo), rest
    assert neglected.found() == neglected.expected
    assert len(neglected.data_files()) == 3 * 3  # of the newest two commits, and what the older of them wrote over
