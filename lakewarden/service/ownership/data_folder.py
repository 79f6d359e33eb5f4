"""The lock of a data folder: it proves that one daemon owns a store in SQLite.

On SQLite one daemon owns every lease. A lock of the operating system on its data folder proves that it is the only one.
The lock ends with the process, even after a kill. On PostgreSQL the replica lease says until when a daemon may act.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from lakewarden.planners.model.errors import PermanentError


class DataFolder:
    """The data folder of the daemon, locked as long as this process lives."""

    def __init__(self, path: Path) -> None:
        """Make and lock the folder. Raises PermanentError if another daemon has it, or if it cannot be written."""
        self.path = path
        self._store: tuple[Path, os.stat_result] | None = None
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)  # one that is there is the operator's
            self._lock: IO[str] = (path / "lakewarden.lock").open("a+")
        except OSError as error:
            raise PermanentError(f"data_dir {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise PermanentError(
                f"data_dir {path} belongs to a running daemon (pid {owner}): stop it, or use another data_dir"
            ) from taken
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only the pid of its owner is not written
            self._lock.truncate(0)
            self._lock.write(str(os.getpid()))
            self._lock.flush()

    def keeps(self, store: Path) -> None:
        """Note the file of the store in the folder, which is open now. Raises PermanentError if it is not there."""
        try:
            self._store = store, store.stat()
        except OSError as error:
            raise PermanentError(f"the store {store} cannot be looked at: {error.strerror}") from error

    def lost(self) -> str | None:
        """Return why the lock proves nothing any more, or None if it does.

        If its file was deleted or replaced, other processes can lock the new file. If the file of the store was moved
        away or replaced, what this daemon writes is lost for the next one.
        """
        try:
            if not _is_there(self.path / "lakewarden.lock", os.fstat(self._lock.fileno())):
                return f"data_dir {self.path} was deleted or replaced under the daemon: stop it, and start it again"
            if self._store is not None and not _is_there(*self._store):
                return (
                    f"the store {self._store[0]} was moved away or replaced under the daemon: stop the daemon, put the "
                    "file back, and start the daemon again"
                )
        except OSError as error:
            return f"data_dir {self.path} cannot be looked at: {error.strerror}"
        return None

    def release(self) -> None:
        """Release the folder. Only after every worker and its JVM are gone."""
        self._lock.close()


def _is_there(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except FileNotFoundError:
        return False
