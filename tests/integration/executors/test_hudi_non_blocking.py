"""Two writers without blocking in the same file groups, on real Spark, and our services beside them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Failed, FailureKind, Granted, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.executors.shared_orders import SharedOrders
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}
BESIDE: dict[Service, dict[str, Any]] = {
    Service.CLEAN: {"policy": "KEEP_LATEST_COMMITS", "commits_retained": 1},
    Service.ARCHIVE: {"keep_min_commits": 2, "keep_max_commits": 3},
}


@pytest.fixture
def buckets(written_orders: Orders, tmp_path: Path) -> SharedOrders:
    """Write two rounds into two buckets of each of two partitions: log files alone."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    table = SharedOrders(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=NON_BLOCKING)
    table.add_batches("p0", "p1", batches=2)
    return table


def test_a_compaction_is_planned_executed_and_committed_in_the_middle_of_two_writes(
    driver: Driver, buckets: SharedOrders
) -> None:
    """Both write to the same file groups and began before the plan. One is completed before the commit, one after it.
    No writer fails, and each key has its newest value, also after a compaction of both. A clean and an archive in the
    middle of the later write take nothing from it.
    """
    with buckets.held("p0", "p0-0", "p0-1") as first, buckets.held("p0", "p0-0", "p0-1", "new") as second:
        newest = {key: f"v{buckets.versions}-{key}" for key in ("p0-0", "p0-1", "new")}
        run = driver.submit(buckets, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        assert second.end() is None
        driver.pool.answer(run, Step.COMMIT, Granted())
        assert isinstance(driver.finish(run), Succeeded)
        for service, options in BESIDE.items():
            assert not isinstance(driver.carry_out(buckets, service, **options), Failed)
        assert first.end() is None
    buckets.expected |= newest
    buckets.check_rows()

    assert isinstance(driver.carry_out(buckets, Service.COMPACTION), Succeeded)
    buckets.check_rows()


def test_a_partition_to_whose_buckets_writers_would_come_back_is_not_deleted(
    driver: Driver, buckets: SharedOrders
) -> None:
    """They would give them the names of the deleted buckets. Hudi hid two of two rows, and a clean deleted them."""
    assert isinstance(driver.carry_out(buckets, Service.COMPACTION), Succeeded)
    week_ago = time.time() - 8 * 86_400
    for file in (buckets.path / "p0").iterdir():
        os.utime(file, (week_ago, week_ago))

    outcome = driver.carry_out(buckets, Service.TTL, days_retain=7)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "the same names again" in outcome.reason
    assert buckets.timeline("*.replacecommit*") == []
    buckets.add("p0", "p0-0", "new")
    buckets.check_rows()
