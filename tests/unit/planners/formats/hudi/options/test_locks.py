"""The lock providers: which lock, how long it is tried, and where it cannot work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.locks import (
    LEAST_FILESYSTEM_RETRY_TIME,
    LEAST_RETRY_TIME,
    lock_keys,
    misplaced,
    wait_keys,
)
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, Lock
from lakewarden.planners.model.table import Table, TableId

PROVIDERS: dict[str, dict[str, Any]] = {
    "zookeeper": {"url": "zk:2181", "base_path": "/hudi", "lock_key": "orders"},
    "storage": {},
    "dynamodb": {"table": "locks", "partition_key": "orders", "region": "eu-west-1"},
    "hive": {"database": "sales", "table": "orders", "uris": "thrift://metastore:9083"},
    "filesystem": {},
}
TRIES_THAT_WAIT = ("zookeeper", "storage", "dynamodb")


def _lock(provider: str) -> Lock:
    options = HudiTableOptions.model_validate({"lock": {"provider": provider, **PROVIDERS[provider]}})
    assert options.lock is not None
    return options.lock


def test_each_provider_is_told_by_its_class_and_its_own_keys() -> None:
    """The owner's settings reach Hudi under the keys of this provider, and of no other."""
    found = {provider: lock_keys(_lock(provider)) for provider in PROVIDERS}

    assert {name: keys["hoodie.write.lock.provider"].rpartition(".")[2] for name, keys in found.items()} == {
        "zookeeper": "ZookeeperBasedLockProvider",
        "storage": "StorageBasedLockProvider",
        "dynamodb": "DynamoDBBasedLockProvider",
        "hive": "HiveMetastoreBasedLockProvider",
        "filesystem": "FileSystemBasedLockProvider",
    }
    assert found["dynamodb"] | {"hoodie.write.lock.provider": ""} == {
        "hoodie.write.lock.provider": "",
        "hoodie.write.lock.dynamodb.table": "locks",
        "hoodie.write.lock.dynamodb.partition_key": "orders",
        "hoodie.write.lock.dynamodb.region": "eu-west-1",
        "hoodie.write.lock.dynamodb.billing_mode": "PAY_PER_REQUEST",
    }
    assert found["hive"]["hoodie.write.lock.hivemetastore.database"] == "sales"
    assert found["hive"]["hoodie.write.lock.hivemetastore.table"] == "orders"
    assert found["hive"]["hoodie.write.lock.hivemetastore.uris"] == "thrift://metastore:9083"


@given(
    provider=st.sampled_from(sorted(PROVIDERS)),
    held=st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1)),
)
def test_a_lock_is_tried_for_five_times_its_longest_hold_and_never_briefly(
    provider: str, held: timedelta | None
) -> None:
    """Whatever was measured, a client does not give up while another may rightly hold the lock."""
    keys = wait_keys(_lock(provider), worst_hold=held)

    pause = timedelta(milliseconds=int(keys["hoodie.write.lock.client.wait_time_ms_between_retry"]))
    a_try = (
        timedelta(milliseconds=int(keys["hoodie.write.lock.wait_time_ms"])) if provider in TRIES_THAT_WAIT else pause
    )
    tried_for = a_try * int(keys["hoodie.write.lock.client.num_retries"])
    assert tried_for >= LEAST_RETRY_TIME
    assert tried_for >= 5 * (held or timedelta(0))
    assert tried_for >= LEAST_FILESYSTEM_RETRY_TIME or provider != "filesystem"
    assert pause == timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("provider", "location", "works"),
    [
        ("storage", "s3://lake/orders", True),
        ("storage", "gs://lake/orders", True),
        ("storage", "abfss://lake/orders", True),
        ("storage", "/data/orders", False),
        ("storage", "hdfs://nn/orders", False),
        ("filesystem", "/data/orders", True),
        ("filesystem", "hdfs://nn/orders", True),
        ("filesystem", "s3://lake/orders", False),
        ("zookeeper", "s3://lake/orders", True),
        ("dynamodb", "/data/orders", True),
    ],
)
def test_a_provider_that_cannot_work_where_the_table_is_says_so(provider: str, location: str, works: bool) -> None:
    """Conditional writes are for object stores, atomic creation is for file systems (Hudi's `StorageSchemes`)."""
    assert (misplaced(_lock(provider), location) is None) is works


@pytest.mark.parametrize(("location", "works"), [("/data/orders", True), ("s3://lake/orders", False)])
def test_a_table_without_writers_needs_a_lock_where_a_file_cannot_be_one(location: str, works: bool) -> None:
    """Our own runs exclude each other by it; on an object store it would fail in the middle of a run."""
    alone = Table(id=TableId("t"), format="hudi", location=location, options=HudiTableOptions(writers="none"))

    assert [wrong.key for wrong in HUDI.contradictions(alone)] == ([] if works else ["options.writers"])
