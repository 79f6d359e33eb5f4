"""The lock that properties of writers name, as the options of a table have it. It is the way back of `lock_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EACH_TABLE = "{table}"
"""Stands for the name of each table. It is what Hudi takes where a key of the lock is not set."""

OF_ITS_PATH = "{path_hash}"
"""Stands for the hash of the path of each table. Hudi's implicit providers name the lock by it."""

_PREFIX = "hoodie.write.lock."
_PROVIDERS = {
    "ZookeeperBasedLockProvider": "zookeeper",
    "StorageBasedLockProvider": "storage",
    "DynamoDBBasedLockProvider": "dynamodb",
    "HiveMetastoreBasedLockProvider": "hive",
    "FileSystemBasedLockProvider": "filesystem",
}
_KEYS: Mapping[str, Mapping[str, tuple[str, str | None]]] = {
    "zookeeper": {
        "url": ("zookeeper.url", None),
        "base_path": ("zookeeper.base_path", None),
        "lock_key": ("zookeeper.lock_key", EACH_TABLE),
    },
    "storage": {},
    "dynamodb": {
        "table": ("dynamodb.table", None),
        "partition_key": ("dynamodb.partition_key", EACH_TABLE),
        "region": ("dynamodb.region", "us-east-1"),
    },
    "hive": {
        "database": ("hivemetastore.database", None),
        "table": ("hivemetastore.table", None),
        "uris": ("hivemetastore.uris", None),
    },
    "filesystem": {},
}
_IMPLICIT: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ZookeeperBasedImplicitBasePathLockProvider": (
        "zookeeper",
        {"base_path": f"/tmp/{OF_ITS_PATH}", "lock_key": "lock_key"},  # noqa: S108 - a node of ZooKeeper
    ),
    "DynamoDBBasedImplicitPartitionKeyLockProvider": ("dynamodb", {"partition_key": OF_ITS_PATH}),
}
"""The providers that name the lock of a table by its path, with what they set. Each takes the very lock that the plain
provider takes with these settings."""
_OPTIONAL = {"dynamodb": {"endpoint_url": "dynamodb.endpoint_url"}, "filesystem": {"path": "filesystem.path"}}


_IN_ITS_JVM = "InProcessLockProvider"
_ZOOKEEPER_PORT = "2181"
"""The port that a client of ZooKeeper takes for an address without one."""


class NamedLock(NamedTuple):
    """The lock that properties name. None, with a remark, if a configuration cannot have it.

    A remark beside a lock says what an operator has to compare.
    """

    lock: Mapping[str, str] | None = None
    remarks: tuple[str, ...] = ()


def lock_named_by(properties: Mapping[str, str]) -> NamedLock:
    """Return the lock. It is nothing at all if no provider is named.

    Source: `HoodieLockConfig` and `DynamoDbBasedLockConfig` of Hudi 1.2.0, for the defaults of keys. Its
    `ZookeeperBasedImplicitBasePathLockProvider`, and `DynamoDBBasedImplicitPartitionKeyLockProvider`.
    """
    named = properties.get(f"{_PREFIX}provider", "").strip().rpartition(".")[2]
    if not named:
        return NamedLock()
    provider, implied = _IMPLICIT.get(named, (_PROVIDERS.get(named), {}))
    if provider is None:
        return NamedLock(remarks=(_of_no_use(named),))
    found = {"provider": provider}
    for setting, (key, default) in _KEYS[provider].items():
        value = implied.get(setting) or properties.get(f"{_PREFIX}{key}", default)
        if value is None:
            missing = f"{named} is named without {_PREFIX}{key}. The writers set that key: write the lock"
            return NamedLock(remarks=(missing,))
        found[setting] = value
    for setting, key in _OPTIONAL.get(provider, {}).items():
        if (said := properties.get(f"{_PREFIX}{key}")) is not None:
            found[setting] = said
    if provider == "zookeeper":
        port = properties.get(f"{_PREFIX}zookeeper.port", _ZOOKEEPER_PORT).strip()
        hosts = [one.strip() for one in found["url"].split(",")]
        if port != _ZOOKEEPER_PORT and not all(_has_port(one) for one in hosts):
            ignored = (
                f"{_PREFIX}zookeeper.port is {port}. Hudi ignores that key: write the port into "
                f"{_PREFIX}zookeeper.url of the writers, and then the lock"
            )
            return NamedLock(remarks=(ignored,))
        found["url"] = ",".join(one if _has_port(one) else f"{one}:{_ZOOKEEPER_PORT}" for one in hosts)
    return NamedLock(lock=found, remarks=(_BY_NAME,) if EACH_TABLE in found.values() else ())


_BY_NAME = (
    "{table} is the name of the folder. Hudi takes hoodie.table.name: if that differs, name the lock of the table"
)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and ":" in host


def _of_no_use(provider: str) -> str:
    if provider == _IN_ITS_JVM:
        return (
            f"{provider} excludes only clients of one JVM. The writers need another lock: docs/writers.md#choose-a-lock"
        )
    return (
        f"{provider} is no provider that Lakewarden knows. The writers need another lock: docs/writers.md#choose-a-lock"
    )
