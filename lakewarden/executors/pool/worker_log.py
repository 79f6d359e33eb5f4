"""The log of a session worker. Its size is bounded while it is written."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

LOG_BYTES = 64 * 2**20
"""How large a worker's log may grow before it becomes the older log. The older log has at most as many bytes."""


READ_AT_ONCE_BYTES = 256 * 2**10
"""How much of a log is followed at a time. A JVM that writes more is followed later, or not at all."""


class LogTail:
    """Follows one log from its present end on. The log may be emptied, or not exist yet. Not thread-safe."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._rest = b""
        self._at = 0
        with contextlib.suppress(FileNotFoundError):
            self._at = log.stat().st_size

    def lines(self) -> list[str]:
        """Return the lines that were written since the last call. A line without an end is returned when it has one,
        or when it is longer than what is read at a time.
        """
        try:
            with self._log.open("rb") as log:
                if os.fstat(log.fileno()).st_size < self._at:  # it was emptied
                    self._at, self._rest = 0, b""
                log.seek(self._at)
                read = log.read(READ_AT_ONCE_BYTES)
        except OSError:
            return []
        self._at += len(read)
        *whole, self._rest = (self._rest + read).split(b"\n")
        if len(self._rest) >= READ_AT_ONCE_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode(errors="replace").rstrip("\r") for line in whole if line.strip()]


def keep_within(log: Path, limit: int = LOG_BYTES) -> None:
    """If `log` is larger than `limit` bytes, replace `<log>.1` by its content, and empty it.

    It is emptied in place, because a worker and its JVM have it open for appending. What they write in the microseconds
    between the copy and the emptying is lost. Of a dead worker nothing is lost. On a full disk the older log is deleted
    first, and the next call does the rest.
    """
    older = log.with_name(f"{log.name}.1")
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size <= limit:
            return
        try:
            with log.open("rb+") as current, older.open("wb", buffering=0) as kept:
                shutil.copyfileobj(current, kept)
                current.truncate(0)
        except OSError:
            older.unlink(missing_ok=True)
