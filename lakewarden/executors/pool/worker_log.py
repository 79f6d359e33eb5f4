"""The log of a session worker, kept within bounds while it is being written."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

LOG_BYTES = 64 * 2**20
"""As much a worker's log may grow to before it becomes the older one, which as much again is kept of."""


def keep_within(log: Path, limit: int = LOG_BYTES) -> None:
    """Once `log` is larger than `limit` bytes, let its content replace that of `<log>.1`, and empty it.

    Emptied in place, since a worker and its JVM hold it open (for appending). What they write between the end of the
    copy and the emptying, microseconds, is lost; of a worker that is dead, nothing. On a full disk the older log makes
    room, and the rest is for the next call.
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
