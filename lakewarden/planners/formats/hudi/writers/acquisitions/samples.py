"""What each of Hudi's lock providers shows of its lock (read in the providers of 1.2.0; run where docs/hudi.md says
so).

| provider | what is seen |
|---|---|
| ZooKeeper | the lock's node stays. Each try for the lock is a child that comes and goes, and the node counts them |
| storage | the lock file stays, and is written anew each time it is taken, kept or released |
| filesystem | the lock file is gone while the lock is free; its folder's time tells when it came and went |
| DynamoDB | nothing: the item is deleted when the lock is released (read) |
| Hive | nothing: the metastore forgets a released lock, and numbers those of all tables together (not tried) |
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.formats.hudi.metadata.properties import HOME
from lakewarden.planners.formats.hudi.options.table_options import (
    DynamoDbLock,
    FilesystemLock,
    HiveLock,
    HudiTableOptions,
    Lock,
    StorageLock,
    ZookeeperLock,
)
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.proof import LockReading, LockSample
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage.content import listed

if TYPE_CHECKING:
    from lakewarden.planners.formats.hudi.writers.acquisitions.zookeeper import Ensemble

_STORAGE_FOLDER, _STORAGE_FILE = f"{HOME}/.locks", "table_lock.json"
_FILESYSTEM_FILE = "lock"
_LARGEST = 64 * 1024
_ENSEMBLES = 64
"""The most ZooKeepers to which one process keeps its sessions."""

_OPENING = threading.Lock()


def leaves_traces(lock: Lock) -> bool:
    """Return whether a lock that is free again shows that it was taken."""
    return isinstance(lock, ZookeeperLock | StorageLock | FilesystemLock)


def called(lock: Lock, location: str) -> str:
    """Return the name of the lock of a table at a canonical `location`, for people. Another lock has another name."""
    match lock:
        case ZookeeperLock():
            return f"{lock.base_path}/{lock.lock_key} of ZooKeeper {lock.url}"
        case StorageLock():
            return f"{location}/{_STORAGE_FOLDER}/{_STORAGE_FILE}"
        case FilesystemLock():
            return f"{_folder(lock, location)}/{_FILESYSTEM_FILE}"
        case DynamoDbLock():
            return f"{lock.partition_key} of DynamoDB table {lock.table}"
        case HiveLock():
            return f"{lock.database}.{lock.table} of {lock.uris}"
        case _:
            assert_never(lock)


def sample(lock: Lock, location: str, storage: Storage) -> LockSample:
    """Return a lock as it is now. Raises TemporaryError if it cannot be seen."""
    match lock:
        case ZookeeperLock():
            return _in_zookeeper(lock)
        case StorageLock():
            return _in_storage(f"{location}/{_STORAGE_FOLDER}", storage)
        case FilesystemLock():
            return _in_a_folder(_folder(lock, location), storage)
        case DynamoDbLock() | HiveLock():
            raise TemporaryError(f"a {lock.provider} lock leaves no trace when it is taken")
        case _:
            assert_never(lock)


def _in_zookeeper(lock: ZookeeperLock) -> LockSample:
    node = _kept(lock.url).node(f"{lock.base_path}/{lock.lock_key}")
    if node is None:
        return LockSample()
    let_go = node.made - node.children
    return LockSample(
        number=str(node.number),
        since=node.created,
        mark=f"{node.made}-{node.children}",
        taken=let_go,
        held=node.children > 0,
    )


def _in_storage(folder: str, storage: Storage) -> LockSample:
    """Return the lock file's state (`StorageLockFile`): when it was last written, and whether that released it."""
    entry = next((entry for entry in listed(folder, storage) if entry.name == _STORAGE_FILE), None)
    if entry is None:
        return LockSample()
    try:
        content = storage.read(f"{folder}/{_STORAGE_FILE}", limit=_LARGEST)
        held = not from_json(content)["expired"]
    except FileNotFoundError:
        return LockSample()
    except (DamagedError, LookupError, TypeError) as error:
        raise TemporaryError(f"the lock file {folder}/{_STORAGE_FILE} cannot be read: {error}") from error
    return LockSample(number=_STORAGE_FILE, mark=content.decode(errors="replace"), held=held, used_at=entry.modified)


def _in_a_folder(folder: str, storage: Storage) -> LockSample:
    try:
        changed = storage.changed_at(folder)
    except FileNotFoundError:
        return LockSample()
    if changed is None:
        raise TemporaryError(f"the folder {folder} does not tell when the lock in it came and went")
    held = any(entry.name == _FILESYSTEM_FILE for entry in listed(folder, storage))
    return LockSample(number=folder, mark=f"{changed.isoformat()}-{held}", held=held, used_at=changed)


def _folder(lock: FilesystemLock, location: str) -> str:
    return f"{location}/{HOME}" if lock.path is None else lock.path.removeprefix("file://").rstrip("/")


def _kept(url: str) -> Ensemble:
    with _OPENING:  # the cache alone would let two threads open two sessions
        return _ensemble(url)


@lru_cache(maxsize=_ENSEMBLES)
def _ensemble(url: str) -> Ensemble:
    from lakewarden.planners.formats.hudi.writers.acquisitions.zookeeper import (  # noqa: PLC0415 - kazoo loads ssl
        Ensemble,
    )

    return Ensemble(url)


# A table's lock, seen right before and right after an observation of the table.

_TIMELINE_BESIDE_THE_LOCK = frozenset({"6"})
"""The table versions with their timeline in the folder of the filesystem lock. Every commit changes the
folder's time."""


def watched_lock(table: Table) -> Lock | None:
    """Return the lock that is to be proved on a table; None if nothing would run on it, or no proof is asked for."""
    options = table.options
    if not isinstance(options, HudiTableOptions) or options.lock is None or table.mode is Mode.OBSERVE:
        return None
    to_prove = options.lock_proof == "observed" and options.writers == "live" and bool(table.policies)
    return options.lock if to_prove and leaves_traces(options.lock) else None


def around(table: Table, storage: Storage, look: Callable[[], Observation]) -> Observation:
    """Observe a table. If its lock is to be proved, its view also says what the lock was like before and after."""
    lock = watched_lock(table)
    if lock is None:
        return look()
    name = called(lock, table.location)
    try:
        before = sample(lock, table.location, storage)
    except TemporaryError as error:
        return _with(look(), LockReading(name=name, failure=str(error)))
    observation = look()
    failure = _unseen(lock, observation.view)
    if failure is not None:
        return _with(observation, LockReading(name=name, failure=failure))
    try:
        return _with(observation, LockReading(name=name, before=before, after=sample(lock, table.location, storage)))
    except TemporaryError as error:
        return _with(observation, LockReading(name=name, failure=str(error)))


def _unseen(lock: Lock, view: TableView) -> str | None:
    if isinstance(lock, FilesystemLock) and lock.path is None and view.version in _TIMELINE_BESIDE_THE_LOCK:
        return f"a filesystem lock in .hoodie cannot be seen on a table of version {view.version}: give it a path"
    return None


def _with(observation: Observation, lock: LockReading) -> Observation:
    return replace(observation, view=replace(observation.view, lock=lock))
