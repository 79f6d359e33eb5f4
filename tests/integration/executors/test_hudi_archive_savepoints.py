"""Hudi's archive on real Spark after a savepoint is gone: what was replaced never comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Succeeded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

KEEP: dict[str, Any] = {"keep_min_commits": 2, "keep_max_commits": 3}
ONE_COMMIT: dict[str, Any] = {"policy": "KEEP_LATEST_COMMITS", "commits_retained": 1}


@contextlib.contextmanager
def _a_persons_client(orders: Orders) -> Iterator[HudiClient]:
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    client = HudiClient(orders.spark, str(orders.path), options, {}, indexes=orders.indexes())
    yield client
    client.close()


def _write_p1(orders: Orders, times: int) -> None:
    """Change one row of a partition in each of so many commits."""
    for _ in range(times):
        orders.versions += 1
        note = f"v{orders.versions}"
        orders._save([("o1", note, orders.versions, "p1")])
        orders.expected["o1"] = note


@pytest.fixture
def saved_orders(driver: Driver, orders: Orders) -> Orders:
    """Save a table, drop one of its partitions, write to another one, and clean."""
    orders.conf = {"hoodie.metadata.compact.max.delta.commits": "1"}
    with _a_persons_client(orders) as client:
        client.java.savepoint(orders.timeline("*.deltacommit")[-1].partition("_")[0], "tester", "before a change")
        client.delete_partitions(["p0"], str(client.java.startDeletePartitionCommit()), extra_metadata={})
    orders.expected = {key: note for key, note in orders.expected.items() if int(key.removeprefix("o")) % 3}
    _write_p1(orders, 1)
    driver.carry_out(orders, Service.COMPACTION)
    _write_p1(orders, 3)
    driver.carry_out(orders, Service.CLEAN, **ONE_COMMIT)
    return orders


def test_an_archive_after_a_savepoint_is_gone_brings_no_rows_back(driver: Driver, saved_orders: Orders) -> None:
    """The savepoint held the files of the dropped partition against the clean. The deletion stays on the timeline until
    the next clean has removed them.
    """
    orders = saved_orders
    [saved] = orders.timeline("*.savepoint")
    [deletion] = orders.timeline("*_*.replacecommit")
    held = {file.name for file in (orders.path / "p0").glob("*-0_*.parquet")}
    assert held
    with _a_persons_client(orders) as client:
        client.java.deleteSavepoint(saved.partition("_")[0])

    driver.carry_out(orders, Service.ARCHIVE, **KEEP)
    assert orders.found() == orders.expected
    assert orders.timeline(deletion)

    _write_p1(orders, 1)
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **ONE_COMMIT), Succeeded)
    assert not held & orders.data_files()
    _write_p1(orders, 2)
    outcome = driver.carry_out(orders, Service.ARCHIVE, **KEEP)
    assert isinstance(outcome, Succeeded)
    assert not orders.timeline(deletion)
    assert orders.found() == orders.expected
