"""A table's lock, seen right before and right after an observation of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakewarden.planners.formats.hudi.options.table_options import FilesystemLock, HudiTableOptions, Lock
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import called, leaves_traces, sample
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.proof import LockReading
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage

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
