"""Real tables with a bucket index are never clustered by size. They are resized if their owner says how."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Failed, FailureKind, Succeeded
from lakewarden.planners.model.instant import Service
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}
CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "order_id",
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
}
DECLARED = {"engine": "consistent_hashing", "hash_fields": ["order_id"], "min_buckets": 2, "max_buckets": 16}


@dataclasses.dataclass
class Bucketed(Orders):
    """Orders in buckets that their owner may have declared."""

    declared: dict[str, Any] | None = None

    @property
    def assigned(self) -> Any:
        """Return what an assignment says of the table."""
        options = {"lock": dict(self.lock)} | ({} if self.declared is None else {"bucket_index": self.declared})
        return {"format": "hudi", "location": self.location, "table_options": options}

    def groups(self) -> dict[str, int]:
        """Return how many buckets each partition has by its newest hashing metadata."""
        found = {}
        for folder in (self.path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata").iterdir():
            newest = max(folder.glob("*.hashing_meta"), key=lambda file: file.name)
            found[folder.name] = len(json.loads(newest.read_bytes())["nodes"])
        return found

    def shown(self) -> dict[str, str]:
        """Return what Spark shows. Before a compaction there are only log files, which hudi-rs does not read."""
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
    """No plan is left on the timeline, and the writer continues."""
    table = table_of(CONSISTENT)
    table.write()

    outcome = driver.carry_out(table, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "would go on writing to replaced files" in outcome.reason
    assert table.timeline("*.clustering.*") == []
    table.write()
    assert table.shown() == table.expected


def test_buckets_that_grew_are_split_between_two_writes(
    driver: Driver, table_of: Callable[[dict[str, str]], Bucketed]
) -> None:
    """The writes come before and after. Every row is there once, with its newest value, by Spark and, compacted, by
    hudi-rs.
    """
    table = table_of(CONSISTENT)
    table.write(keys=300)
    table.declared = DECLARED
    before = table.groups()

    outcome = driver.carry_out(
        table, Service.CLUSTERING, target_file_max_bytes="1KiB", small_file_limit="1B", **AT_ONCE
    )

    assert isinstance(outcome, Succeeded), outcome
    assert all(table.groups()[partition] > number for partition, number in before.items())
    assert table.shown() == table.expected
    table.write(keys=310)
    assert table.shown() == table.expected
    outcome = driver.carry_out(table, Service.COMPACTION)
    assert isinstance(outcome, Succeeded), outcome
    assert table.found() == table.expected
