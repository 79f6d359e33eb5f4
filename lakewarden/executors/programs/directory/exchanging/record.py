"""The journal of one exchange: written before it, and enough to end it after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lakewarden.executors.programs.directory.exchanging.renames import Entry, sync_folder
from lakewarden.executors.programs.directory.partition_list import FileName, PartitionPath
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.local import LocalStorage

NAME = "record.json"


class ExchangeProgress(StrEnum):
    """How far an exchange is."""

    STAGED = "staged"
    """The new folder is complete. It may have been exchanged with the partition, or not."""
    PUBLISHED = "published"
    """It was exchanged, and the files that it replaces were found unchanged after that. They may be deleted."""


class ExchangeRecord(BaseModel):
    """One exchange: the partition, by its path below the table, and the files of both folders. `listed`: a metastore
    listed the partition before it was to be deleted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    partition: PartitionPath
    progress: ExchangeProgress
    old: Mapping[FileName, Entry]
    new: Mapping[FileName, Entry]
    listed: bool = False

    @property
    def is_drop(self) -> bool:
        """Whether nothing takes the place of the old folder."""
        return not self.new

    @property
    def made(self) -> frozenset[str]:
        """The names of the files that are in the new folder alone."""
        return frozenset(self.new) - frozenset(self.old)


def write(home: str, record: ExchangeRecord) -> None:
    """Write the record. After a kill there is the one before, or this one."""
    draft, place = f"{home}/{NAME}.draft", f"{home}/{NAME}"
    with open(draft, "wb") as file:  # noqa: PTH123 - a location, as all paths of this package
        file.write(record.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, place)  # noqa: PTH105 - as above
    sync_folder(home)
    sync_folder(os.path.dirname(home))  # noqa: PTH120 - as above


def read(home: str) -> ExchangeRecord | None:
    """Return the journal; None if there is none: then nothing was exchanged. Raises PermanentError if it is damaged."""
    place = Path(home) / NAME
    try:
        return ExchangeRecord.model_validate_json(place.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as damaged:
        raise PermanentError(
            f"{place} cannot be read: look which of {home}/new and the partition holds all rows, and remove {home}"
        ) from damaged


# One run that moves or deletes files of a directory at a time, on one machine, whatever daemon it is of.

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
