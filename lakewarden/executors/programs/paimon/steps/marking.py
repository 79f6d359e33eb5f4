"""Writes the marker of a partition: whole, in its own folder, and never through a link. On S3 it replaces none that it
does not know.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from datetime import datetime

import structlog

from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.planners.formats.paimon.partitions.listed import PaimonPartition
from lakewarden.planners.formats.paimon.partitions.needs import called
from lakewarden.planners.formats.paimon.writers.markers import LARGEST, NAME, marker
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.storage.locations import is_local

log = structlog.get_logger(__name__)

_UNDER_WAY = re.compile(rf"\.{NAME}\.[0-9a-f]{{16}}\.tmp")
"""The name of a marker that a run of Lakewarden writes. Paimon's own name of that kind has a UUID."""


def mark(table: OpenTable, partition: PaimonPartition, *, at: datetime, snapshot: int) -> bool:
    """Write the marker of a partition, or renew it. Return False if its folder is not there, or is not the table's, or
    if another program was faster on S3.

    Raises PermanentError if the disk or the store refuses, and TemporaryError.
    """
    if partition.name is None:
        raise PermanentError("the folder of a partition cannot be told")
    location = table.table.location
    folder, on_disk = f"{location}/{partition.name.folder}", is_local(location)
    outside = Home(location, by_key=not on_disk).why_outside(folder, whole_folder=True)
    try:
        if outside is None and on_disk and not stat.S_ISDIR(os.lstat(folder).st_mode):
            outside = "is no folder"
        if outside is not None:
            log.warning("partition_not_committed", partition=called(partition), reason=f"it {outside}")
            return False
        if not on_disk:
            return _written_in_store(table, folder, at=at, snapshot=snapshot)
        content = marker(at, snapshot=snapshot, before=_read(f"{folder}/{NAME}"))
        written_whole(folder, content, run=table.assignment.run)
    except (FileNotFoundError, NotADirectoryError):  # the partition has no folder, or was removed meanwhile
        return False
    except OSError as error:
        raise PermanentError(f"the marker of {called(partition)} cannot be written: {error.strerror}") from error
    return True


def _written_in_store(table: OpenTable, folder: str, *, at: datetime, snapshot: int) -> bool:
    """Write the marker in the place of the one that was read. Return False if another program was faster. Raises
    FileNotFoundError if there is no file of the partition.
    """
    table.storage.listing(folder)
    conditions, file = table.conditions(), f"{folder}/{NAME}"
    before = conditions.versioned(file)
    content = marker(at, snapshot=snapshot, before=None if before is None else before.content)
    if before is None:
        return conditions.create(file, content) is not None
    return conditions.replace(file, content, version=before.version) is not None


def written_whole(folder: str, content: bytes, *, run: str) -> None:
    """Write the marker of a folder under another name, and then give it its name. What killed runs have left under such
    names goes. A run is killed before the rename, or has left nothing. So each leftover lies in a folder that is to be
    marked again. Raises OSError.
    """
    for left in _leftovers(folder):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/{left}")  # noqa: PTH108 - a location, as all paths of this package
    made = f"{folder}/.{NAME}.{run}.tmp"
    try:
        with open(made, "xb") as written:  # noqa: PTH123 - as above
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        os.replace(made, f"{folder}/{NAME}")  # noqa: PTH105
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)  # noqa: PTH108


def _leftovers(folder: str) -> list[str]:
    with os.scandir(folder) as listed:
        return [one.name for one in listed if _UNDER_WAY.fullmatch(one.name) and one.is_file(follow_symlinks=False)]


def _read(file: str) -> bytes | None:
    """Return the marker that is there. Raises PermanentError for a link or a folder in its place."""
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise PermanentError(f"{file} is no file: remove it, so that the partition can be marked")
        with open(file, "rb") as opened:  # noqa: PTH123
            return opened.read(LARGEST)
    except FileNotFoundError:
        return None
