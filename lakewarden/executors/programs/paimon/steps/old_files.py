"""What may be an orphan of a table: old files with names that Paimon gives. On a disk links are not followed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.planners.formats.paimon.deletion.names import FOLDERS, Naming
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.formats.paimon.partitions.expiry import called
from lakewarden.planners.formats.paimon.partitions.names import PaimonPartition
from lakewarden.planners.formats.paimon.writers import LARGEST, NAME, marker
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.storage.locations import is_local


@dataclass(frozen=True, kw_only=True, slots=True)
class OldFile:
    """A file: its path below the table's folder, and what the disk or the store tells of it. A disk knows its `inode`,
    and a store its `version`.
    """

    path: str
    size: int
    modified_ns: int
    inode: int = 0
    version: str = ""

    @property
    def name(self) -> str:
        """Return its name alone."""
        return self.path.rpartition("/")[2]

    @property
    def written_at(self) -> datetime:
        """Return the time of its last write."""
        return datetime.fromtimestamp(self.modified_ns / 1e9, UTC)


@dataclass(kw_only=True, slots=True)
class OldFiles:
    """The old files with names of Paimon's, and how many files there are in all."""

    old: list[OldFile]
    files: int = 0


def listed(location: str, naming: Naming, *, before: datetime) -> OldFiles:
    """List the folders in which Paimon keeps files, for those that were written `before`. Raises OSError."""
    listing, limit = OldFiles(old=[]), before.timestamp() * 1e9
    for entry, path in _files(location, naming):
        listing.files += 1
        if not may_be_orphan(path, entry.name, naming):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # it was deleted meanwhile
            continue
        if status.st_mtime_ns < limit:
            listing.old.append(_old_file(path, status))
    return listing


def is_still(old_file: OldFile, location: str) -> bool:
    """Whether a file is there as it was listed, in folders that are no links."""
    parent = location
    for folder in old_file.path.split("/")[:-1]:
        parent = f"{parent}/{folder}"
        if os.path.islink(parent):  # noqa: PTH114 - a location, as all paths of this package
            return False
    try:
        status = os.lstat(f"{location}/{old_file.path}")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(status.st_mode) and _old_file(old_file.path, status) == old_file


def _old_file(path: str, status: os.stat_result) -> OldFile:
    return OldFile(path=path, size=status.st_size, modified_ns=status.st_mtime_ns, inode=status.st_ino)


def may_be_orphan(path: str, name: str, naming: Naming) -> bool:
    """Whether a file of the folders in which Paimon keeps files has a name that Paimon gives there."""
    pattern = FOLDERS.get(path.removesuffix(f"/{name}"))
    return naming.is_data(name) if pattern is None else bool(pattern.fullmatch(name))


def _files(location: str, naming: Naming) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield the files in the folders of metadata and in the buckets, each with its path below the table's folder."""
    for folder in FOLDERS:
        for entry in _entries(f"{location}/{folder}"):
            if entry.is_file(follow_symlinks=False):
                yield entry, f"{folder}/{entry.name}"
    waiting = [("", 0)]
    while waiting:
        above, depth = waiting.pop()
        for entry in _entries(f"{location}/{above}"):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if naming.is_bucket(entry.name, depth):
                for file in _entries(entry.path):
                    if file.is_file(follow_symlinks=False):
                        yield file, f"{above}{entry.name}/{file.name}"
            elif naming.is_partition(entry.name, depth):
                waiting.append((f"{above}{entry.name}/", depth + 1))


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:  # there is none, or it was deleted meanwhile
        return


# The folder of Lakewarden below a table's folder on a disk.


def disk_clock(location: str) -> datetime:
    """Return the current time of the disk: a file is written, and deleted again. Raises OSError."""
    os.makedirs(f"{location}/{OURS}", exist_ok=True)  # noqa: PTH103 - a location, as all paths of this package
    with tempfile.NamedTemporaryFile(dir=f"{location}/{OURS}", prefix=".clock.") as file:
        file.write(b"-")
        file.flush()
        return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)


def write_whole(path: str, content: bytes) -> None:
    """Write a file of the folder in the place of the one before. A kill leaves one of the two whole. Raises OSError."""
    scratch = f"{path}.next"
    with open(scratch, "wb") as file:  # noqa: PTH123 - a location
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)  # noqa: PTH105 - a location


# Writes the marker of a partition: whole, in its own folder, and never through a link. On S3 it replaces none that it
# does not know.

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
            outside = "is not a folder"
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
        return [
            entry.name for entry in listed if _UNDER_WAY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]


def _read(file: str) -> bytes | None:
    """Return the marker that is there. Raises PermanentError for a link or a folder in its place."""
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise PermanentError(f"{file} is not a file: remove it, so that the partition can be marked")
        with open(file, "rb") as opened:  # noqa: PTH123
            return opened.read(LARGEST)
    except FileNotFoundError:
        return None
