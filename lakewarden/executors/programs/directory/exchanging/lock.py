"""One run that moves or deletes files of a directory at a time, on one machine, whatever daemon it is of."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from datetime import timedelta

from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.local import LocalStorage

TIMEOUT = timedelta(seconds=5)
"""So long a run waits for another one. Orphans may run beside a compaction, and end in a moment. If a run gave up at
once, each such meeting would make its next rest longer."""

_BETWEEN_TRIES = timedelta(milliseconds=50)


@contextlib.contextmanager
def alone_in(
    table: str, storage: Storage, *, elsewhere: str, failed: str, timeout: timedelta = TIMEOUT
) -> Iterator[None]:
    """Hold the lock of a table on a local disk. An error of the disk in the block becomes a TemporaryError that begins
    with `failed`. Raises PermanentError with `elsewhere` in another store, and YieldError if another process holds the
    lock for longer than `timeout`.
    """
    if not isinstance(storage, LocalStorage):
        raise PermanentError(elsewhere)
    try:
        with held(table, timeout=timeout):
            yield
    except OSError as error:
        raise TemporaryError(f"{failed}: {error}") from error


@contextlib.contextmanager
def held(table: str, *, timeout: timedelta = timedelta()) -> Iterator[None]:
    """Hold the lock of the table's folder for as long as the process lives and is in the block. Raises YieldError if
    another process holds it for longer than `timeout`.
    """
    opened = os.open(table, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for left in range(int(timeout / _BETWEEN_TRIES), -1, -1):
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                if left == 0:
                    raise YieldError(f"another run works in {table}") from busy
                time.sleep(_BETWEEN_TRIES.total_seconds())
            else:
                break
        yield
    finally:
        os.close(opened)
