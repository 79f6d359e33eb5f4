"""Real tables with a bucket index: never clustered by size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Failed, FailureKind
from lakewarden.planners.model.instant import Service
from tests.integration.conftest import Driver, Orders

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}
CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "order_id",
}


class Bucketed(Orders):
    """Orders in buckets."""

    def shown(self) -> dict[str, str]:
        """Return what Spark shows: before a compaction there are only log files, of which hudi-rs reads none."""
        rows = self.spark.read.format("hudi").load(self.address).select("order_id", "note").collect()
        assert len(rows) == len({row.order_id for row in rows})
        return {row.order_id: row.note for row in rows}


@pytest.fixture
def table_of(written_orders: Orders, tmp_path: Path) -> Callable[[dict[str, str]], Bucketed]:
    """Return a maker of new tables, whose writer has these options."""

    def make(conf: dict[str, str]) -> Bucketed:
        lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
        return Bucketed(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=conf)

    return make


def test_a_table_in_buckets_is_not_clustered_by_size(
    driver: Driver, table_of: Callable[[dict[str, str]], Bucketed]
) -> None:
    """No plan is left on the timeline, and the writer goes on."""
    table = table_of(CONSISTENT)
    table.write()

    outcome = driver.carry_out(table, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "would go on writing to replaced files" in outcome.reason
    assert table.timeline("*.clustering.*") == []
    table.write()
    assert table.shown() == table.expected
