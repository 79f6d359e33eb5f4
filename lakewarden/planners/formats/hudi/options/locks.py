"""Hudi's lock providers as `hoodie.*` keys. Hudi's client in the workers and the table's writers use the same keys.

Read in Hudi's `HoodieLockConfig`, `LockManager` and the providers of 1.2.0. `InProcessLockProvider` is never used: it
excludes only clients of its own JVM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple, assert_never

from lakewarden.planners.formats.hudi.options.table_options import (
    DynamoDbLock,
    FilesystemLock,
    HiveLock,
    Lock,
    StorageLock,
    ZookeeperLock,
)

LEAST_RETRY_TIME = timedelta(minutes=10)
"""The least time for which a lock is tried: metadata-table work is done under it, and may take minutes."""

LEAST_FILESYSTEM_RETRY_TIME = timedelta(minutes=30)
"""A client of the filesystem lock that times out deletes its holder's lock, so it must not time out."""

OURS_ALONE = FilesystemLock(provider="filesystem")
"""The lock of a table that is declared free of writers. Lakewarden's own runs, perhaps in two workers, exclude each
other by a file beside the table. An in-process lock would not work between workers."""

_PACKAGE = "org.apache.hudi.client.transaction.lock"
_BETWEEN_TRIES = timedelta(milliseconds=500)  # Hudi's own default of five seconds makes most of the wait
_TRY = timedelta(seconds=60)  # hoodie.write.lock.wait_time_ms; for DynamoDB it is the length of a lease, too
_CONDITIONAL_WRITES = ("s3", "s3a", "gs", "abfs", "abfss")
_ATOMIC_CREATION = ("file", "hdfs", "viewfs", "dfs", "hopsfs")


def lock_keys(lock: Lock) -> dict[str, str]:
    """Return the provider and the keys that identify its lock: both sides of a table must set exactly these."""
    match lock:
        case ZookeeperLock():
            return {
                "hoodie.write.lock.provider": f"{_PACKAGE}.ZookeeperBasedLockProvider",
                "hoodie.write.lock.zookeeper.url": lock.url,
                "hoodie.write.lock.zookeeper.base_path": lock.base_path,
                "hoodie.write.lock.zookeeper.lock_key": lock.lock_key,
            }
        case StorageLock():
            return {"hoodie.write.lock.provider": f"{_PACKAGE}.StorageBasedLockProvider"}
        case DynamoDbLock():
            return {
                "hoodie.write.lock.provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
                "hoodie.write.lock.dynamodb.table": lock.table,
                "hoodie.write.lock.dynamodb.partition_key": lock.partition_key,
                "hoodie.write.lock.dynamodb.region": lock.region,
                "hoodie.write.lock.dynamodb.billing_mode": lock.billing_mode,
                **({"hoodie.write.lock.dynamodb.endpoint_url": lock.endpoint_url} if lock.endpoint_url else {}),
            }
        case HiveLock():
            return {
                "hoodie.write.lock.provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
                "hoodie.write.lock.hivemetastore.database": lock.database,
                "hoodie.write.lock.hivemetastore.table": lock.table,
                "hoodie.write.lock.hivemetastore.uris": lock.uris,
            }
        case FilesystemLock():
            return {
                "hoodie.write.lock.provider": f"{_PACKAGE}.FileSystemBasedLockProvider",
                "hoodie.write.lock.filesystem.expire": "10",  # minutes after which a dead holder's lock is taken
                **({"hoodie.write.lock.filesystem.path": lock.path} if lock.path else {}),
            }
        case _:
            assert_never(lock)


def retry_time(lock: Lock, *, worst_hold: timedelta | None = None) -> timedelta:
    """Return how long a client tries for the lock: at least five times the longest hold that was seen."""
    least = LEAST_FILESYSTEM_RETRY_TIME if isinstance(lock, FilesystemLock) else LEAST_RETRY_TIME
    return max(least, 5 * (worst_hold or timedelta(0)))


def wait_keys(lock: Lock, *, worst_hold: timedelta | None = None) -> dict[str, str]:
    """Return the keys that make a client try for as long as `retry_time` says.

    `LockManager` tries `client.num_retries` times more, half a second apart. A try of ZooKeeper, storage or DynamoDB
    waits for `wait_time_ms` itself. A try of Hive or of the filesystem lock answers at once.
    """
    a_try = _BETWEEN_TRIES if isinstance(lock, HiveLock | FilesystemLock) else _TRY
    return {
        "hoodie.write.lock.wait_time_ms": _milliseconds(_TRY),
        "hoodie.write.lock.wait_time_ms_between_retry": _milliseconds(_BETWEEN_TRIES),
        "hoodie.write.lock.client.wait_time_ms_between_retry": _milliseconds(_BETWEEN_TRIES),
        "hoodie.write.lock.client.num_retries": str(math.ceil(retry_time(lock, worst_hold=worst_hold) / a_try)),
    }


def misplaced(lock: Lock, location: str) -> str | None:
    """Return why the provider cannot lock the table at a canonical `location`; None if it can."""
    scheme, separator, _ = location.partition("://")
    scheme = scheme if separator else "file"
    match lock:
        case StorageLock() if scheme not in _CONDITIONAL_WRITES:
            return (
                f"storage needs conditional writes, which {scheme}: locations do not have: "
                f"it is for {', '.join(_CONDITIONAL_WRITES)}"
            )
        case FilesystemLock() if lock.path is None and scheme not in _ATOMIC_CREATION:
            return (
                f"filesystem needs a file system that creates files atomically, which {scheme}: is not: "
                "name another provider, as storage"
            )
        case _:
            return None


def lockless(location: str) -> str | None:
    """Return why a table at a canonical `location` needs a named lock even without writers; None if it does not."""
    if misplaced(OURS_ALONE, location) is None:
        return None
    return "Lakewarden's own runs need a lock too, and no file beside this table can be one: name a lock"


def jar_beside_the_bundle(lock: Lock, location: str) -> str | None:
    """Return what a client needs on its class path beside Hudi's bundle for its engine; None if nothing."""
    match lock:
        case StorageLock() if location.startswith("gs:"):
            return "hudi-gcp-bundle"
        case StorageLock() if location.startswith("abfs"):
            return "hudi-azure-bundle"
        case StorageLock() | DynamoDbLock():
            return "hudi-aws-bundle"
        case ZookeeperLock() | HiveLock() | FilesystemLock():
            return None
        case _:
            assert_never(lock)


def _milliseconds(duration: timedelta) -> str:
    return str(round(duration.total_seconds() * 1000))


# The lock that properties of writers name, as the options of a table have it. It is the way back of `lock_keys`.

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
    settings = {"provider": provider}
    for setting, (key, default) in _KEYS[provider].items():
        value = implied.get(setting) or properties.get(f"{_PREFIX}{key}", default)
        if value is None:
            missing = f"{named} is named without {_PREFIX}{key}. The writers set that key: write the lock"
            return NamedLock(remarks=(missing,))
        settings[setting] = value
    for setting, key in _OPTIONAL.get(provider, {}).items():
        if (text := properties.get(f"{_PREFIX}{key}")) is not None:
            settings[setting] = text
    if provider == "zookeeper":
        port = properties.get(f"{_PREFIX}zookeeper.port", _ZOOKEEPER_PORT).strip()
        hosts = [host.strip() for host in settings["url"].split(",")]
        if port != _ZOOKEEPER_PORT and not all(_has_port(host) for host in hosts):
            ignored = (
                f"{_PREFIX}zookeeper.port is {port}. Hudi ignores that key: write the port into "
                f"{_PREFIX}zookeeper.url of the writers, and then the lock"
            )
            return NamedLock(remarks=(ignored,))
        settings["url"] = ",".join(host if _has_port(host) else f"{host}:{_ZOOKEEPER_PORT}" for host in hosts)
    return NamedLock(lock=settings, remarks=(_BY_NAME,) if EACH_TABLE in settings.values() else ())


_BY_NAME = (
    "{table} is the name of the folder. Hudi takes hoodie.table.name: if that differs, name the lock of the table"
)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and ":" in host


def _of_no_use(provider: str) -> str:
    why = "excludes only clients of one JVM" if provider == _IN_ITS_JVM else "is not a provider that Lakewarden knows"
    return f"{provider} {why}. The writers need another lock: docs/writers.md#choose-a-lock"
