"""Leases: who may run a service on a table now.

On SQLite one daemon owns every lease, and an operating-system lock on its data folder proves that it is the
only one: the lock goes when the process does, however it dies. On PostgreSQL its tenure says until when.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.store.port import Store


class DataFolder:
    """The daemon's data folder, locked for as long as this process lives."""

    def __init__(self, path: Path) -> None:
        """Make and lock the folder. Raises PermanentError if another daemon has it, or it cannot be written."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = (path / "lakewarden.lock").open("a+")
        except OSError as trouble:
            raise PermanentError(f"data_dir {path} cannot be used: {trouble.strerror}") from trouble
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise PermanentError(
                f"data_dir {path} belongs to a running daemon (pid {owner}): stop it, or use another data_dir"
            ) from taken
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only who has it is not told
            self._lock.truncate(0)
            self._lock.write(str(os.getpid()))
            self._lock.flush()

    def lost(self) -> str | None:
        """Return why the lock proves nothing any more: its file was deleted or replaced, and others can lock the
        new one. None while all is well.
        """
        try:
            there = (self.path / "lakewarden.lock").stat()
        except FileNotFoundError:
            there = None
        except OSError as trouble:
            return f"data_dir {self.path} cannot be looked at: {trouble.strerror}"
        if there is not None and os.path.samestat(there, os.fstat(self._lock.fileno())):
            return None
        return f"data_dir {self.path} was deleted or replaced under the daemon: stop it, and start it again"

    def release(self) -> None:
        """Give the folder up. Only after every worker and its JVM are gone."""
        self._lock.close()


class RunLeases:
    """Tells whether this replica may still act, and for a run: whether nobody else has taken its lease since."""

    def __init__(self, store: Store, tenure: ReplicaLease) -> None:
        self._store = store
        self._tenure = tenure

    def holds(self, run: Run) -> bool:
        """Whether the tenure holds and the run's epoch is the newest of its table and service.

        Raises TemporaryError if the store does not answer.
        """
        newest = run.epoch > 0 and self._store.epoch(identity=run.identity, service=run.service) == run.epoch
        return newest and self._tenure.holds()  # asked last: the store may have taken its time
