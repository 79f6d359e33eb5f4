"""The keys of every lock provider, checked with Hudi itself. Which providers exclude is not a matter of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from lakewarden.planners.formats.hudi.options.locks import lock_keys, wait_keys
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.service.config.layers.templates import path_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.spark

LOCKS: Mapping[str, Mapping[str, str]] = {
    "zookeeper": {"url": "zk:2181", "base_path": "/hudi", "lock_key": "orders"},
    "storage": {},
    "dynamodb": {"table": "locks", "partition_key": "orders", "region": "eu-west-1"},
    "hive": {"database": "sales", "table": "orders", "uris": "thrift://metastore:9083"},
    "filesystem": {},
}
NOT_IN_THE_BUNDLE = {"dynamodb"}
KNOWN_TO = (
    "org.apache.hudi.config.HoodieLockConfig",
    "org.apache.hudi.config.StorageBasedLockConfig",
    "org.apache.hudi.config.HoodieWriteConfig",
)


def _known_keys(java: Any) -> set[str]:
    """Return the keys of Hudi's own configuration classes, with their former names."""
    known = set()
    for name in KNOWN_TO:
        fields = java.Class.forName(name).getDeclaredFields()
        for field in (field for field in fields if field.getType().getSimpleName() == "ConfigProperty"):
            known.add(str(field.get(None).key()))
    return known


@pytest.mark.parametrize("provider", sorted(LOCKS))
def test_hudi_takes_the_keys_of_every_provider(provider: str, spark: Any) -> None:
    """A client is configured with them, knows each by its name, and finds the provider in its bundle, except
    DynamoDB's, which is in a jar of its own.
    """
    lock = HudiTableOptions.model_validate({"lock": {"provider": provider, **LOCKS[provider]}}).lock
    assert lock is not None
    keys = {**lock_keys(lock), **wait_keys(lock)}
    jvm = spark._jvm

    properties = jvm.java.util.Properties()
    for key, value in {**keys, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}.items():
        properties.setProperty(key, value)
    config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withPath("/x").withProps(properties).build()

    assert config.getLockProviderClass() == keys["hoodie.write.lock.provider"]
    assert config.getLockAcquireWaitTimeoutInMs() == 60_000
    assert config.getFailedWritesCleanPolicy().toString() == "LAZY"
    known = {key for key in keys if not key.startswith("hoodie.write.lock.dynamodb.")}
    assert known <= _known_keys(jvm.java.lang)
    loader = jvm.Thread.currentThread().getContextClassLoader()
    if provider in NOT_IN_THE_BUNDLE:
        with pytest.raises(Py4JJavaError, match="ClassNotFoundException"):
            loader.loadClass(keys["hoodie.write.lock.provider"])
    else:
        assert loader.loadClass(keys["hoodie.write.lock.provider"])


@pytest.mark.parametrize(
    "path", ["/data/lake/sales/orders", "s3a://lake/orders", "s3://lake/straße", "hdfs://nn:8020/t"]
)
def test_the_hash_of_a_path_is_that_of_the_implicit_provider(path: str, spark: Any) -> None:
    """So a writer with the implicit provider, and a worker with the plain one, take the same lock."""
    provider = spark._jvm.org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider
    assert provider.getLockBasePath(path) == f"/tmp/{path_hash(path)}"
    assert provider.LOCK_KEY == "lock_key"
