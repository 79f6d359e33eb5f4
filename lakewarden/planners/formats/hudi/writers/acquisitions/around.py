"""A table's lock, seen right before and right after a look at the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakewarden.planners.formats.hudi.options.table_options import FilesystemLock, HudiTableOptions, Lock
from lakewarden.planners.formats.hudi.writers.acquisitions.sights import called, leaves_traces, sight
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.lock import LockLook
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage

_TIMELINE_BESIDE_THE_LOCK = frozenset({"6"})
"""Table versions whose timeline lies in the folder of the filesystem lock: every commit changes its time."""


def watched_lock(table: Table) -> Lock | None:
    """Return the lock that is to be proved on a table; None where nothing would be run on it, or nobody asks."""
    options = table.options
    if not isinstance(options, HudiTableOptions) or options.lock is None or table.mode is Mode.OBSERVE:
        return None
    to_prove = options.lock_proof == "observed" and options.writers == "live" and bool(table.policies)
    return options.lock if to_prove and leaves_traces(options.lock) else None


def around(table: Table, storage: Storage, look: Callable[[], Observation]) -> Observation:
    """Look at a table; its view also says what its lock was like around the look, where that is to be proved."""
    lock = watched_lock(table)
    if lock is None:
        return look()
    name = called(lock, table.location)
    try:
        before = sight(lock, table.location, storage)
    except TemporaryError as error:
        return _with(look(), LockLook(name=name, trouble=str(error)))
    observation = look()
    trouble = _unseen(lock, observation.view)
    if trouble is not None:
        return _with(observation, LockLook(name=name, trouble=trouble))
    try:
        return _with(observation, LockLook(name=name, before=before, after=sight(lock, table.location, storage)))
    except TemporaryError as error:
        return _with(observation, LockLook(name=name, trouble=str(error)))


def _unseen(lock: Lock, view: TableView) -> str | None:
    if isinstance(lock, FilesystemLock) and lock.path is None and view.version in _TIMELINE_BESIDE_THE_LOCK:
        return f"a filesystem lock in .hoodie cannot be seen on a table of version {view.version}: give it a path"
    return None


def _with(observation: Observation, lock: LockLook) -> Observation:
    return replace(observation, view=replace(observation.view, lock=lock))
