"""The files of a table on a disk. Links are neither followed nor deleted."""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.executors.programs.paimon.steps import old_files
from lakewarden.executors.programs.paimon.steps.old_files import (
    OldFile,
    OldFiles,
    disk_clock,
    may_be_orphan,
    write_whole,
)
from lakewarden.planners.formats.paimon.deletion.names import FOLDERS, Naming
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.inside import ScatteredStorage
from lakewarden.planners.storage.locations import is_local
from lakewarden.planners.storage.objects import ObjectStorage

_BUCKET = "bucket-"
_FOLDERS = (*FOLDERS, "branch", OURS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """What lies in the buckets of a table: how many files, and where those are that were asked for."""

    files: int
    found: dict[str, str]


class _Listing:
    """Counts files, and finds those with given names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._files = 0
        self._paths: dict[str, str] = {}
        self._twice: set[str] = set()

    def add(self, name: str, path: str) -> None:
        self._files += 1
        if name in self._names:
            if name in self._paths:
                self._twice.add(name)
            self._paths[name] = path

    def listed(self) -> Listed:
        found = {name: path for name, path in self._paths.items() if name not in self._twice}
        return Listed(files=self._files, found=found)


class FilesOnDisk:
    """The files below one table's folder. Raises OSError where the disk refuses."""

    def __init__(self, location: str, *, run: str) -> None:
        self._location, self._run = location, run

    def require_own_folders(self) -> None:
        """Raise PermanentError if a folder of the table is a link: it may lead to the files of another table."""
        for name in ("", *(f"/{FOLDER}" for FOLDER in _FOLDERS)):
            if os.path.islink(f"{self._location}{name}"):  # noqa: PTH114 - a location, as all paths of this package
                raise PermanentError(
                    f"{self._location}{name} is a link, and nothing is deleted through it: put the folder there"
                )

    def in_buckets(self, names: Collection[str]) -> Listed:
        """List the buckets for files with these names. A name that is there twice is not found."""
        listing = _Listing(names)
        for place in files_in_buckets(self._location):
            listing.add(place.name, place.path)
        return listing.listed()

    def delete(self, files: Iterable[str]) -> int:
        """Delete files one after the other, and return how many were there."""
        return sum(map(delete, files))

    def old(self, naming: Naming, *, before: datetime) -> OldFiles:
        """List what was written `before`."""
        return old_files.listed(self._location, naming, before=before)

    def delete_unchanged(self, files: Iterable[OldFile]) -> tuple[OldFile, ...]:
        """Delete files that are as they were listed, one after the other."""
        return tuple(file for file in files if self._delete_unchanged(file))

    def clock(self) -> datetime:
        """Return the current time of the disk."""
        return disk_clock(self._location)

    def write(self, file: str, content: bytes) -> None:
        """Write a file in the place of the one before."""
        write_whole(file, content)

    def hint_of_oldest(self, number: int) -> None:
        """Write Paimon's hint of the oldest snapshot, if the disk lets it."""
        made = f"{self._location}/snapshot/.EARLIEST.{self._run}.tmp"
        with contextlib.suppress(OSError):
            with open(made, "w", encoding="ascii") as file:  # noqa: PTH123 - a location, as all paths of this package
                file.write(str(number))
            os.replace(made, f"{self._location}/snapshot/EARLIEST")  # noqa: PTH105

    def _delete_unchanged(self, old_file: OldFile) -> bool:
        if not old_files.is_still(old_file, self._location):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._location}/{old_file.path}")  # noqa: PTH108 - a location
            return True
        return False


def files_in_buckets(location: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files in the buckets below a table's folder and below the folders of its partitions."""
    waiting = [location]
    while waiting:
        folder = waiting.pop()
        is_bucket = folder.rpartition("/")[2].startswith(_BUCKET)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if not is_bucket and (entry.name.startswith(_BUCKET) or "=" in entry.name):
                            waiting.append(entry.path)
                    elif is_bucket and entry.is_file(follow_symlinks=False):
                        yield entry
        except FileNotFoundError:  # it was deleted meanwhile
            continue


def delete(path: str) -> bool:
    """Delete a file, and return whether it was there. A folder or a link is left alone."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        os.unlink(path)  # noqa: PTH108 - a location, as all paths of this package
    except FileNotFoundError:
        return False
    return True


# The files of a table on S3. A store has neither folders nor links. Of a file it tells the size, the time and an ETag.
#
# Source of the hint: `utils.HintFileUtils` of Paimon 1.3.1. It is a number as text.

_AT_ONCE = 16

_T = TypeVar("_T")
_R = TypeVar("_R")


class FilesInStore:
    """The files below one table's location. Any failure raises a LakewardenError."""

    def __init__(self, location: str, storage: ObjectStorage) -> None:
        self._location, self._storage = location, storage

    def require_own_folders(self) -> None:
        """Do nothing: a store has no links."""

    def in_buckets(self, names: Collection[str]) -> Listed:
        """List the buckets for files with these names. It takes one request for each thousand files of the table."""
        listing = _Listing(names)

        def take(path: str, _: FileEntry) -> None:
            *partitions, bucket, name = ("", *path.split("/"))
            if name and bucket.startswith(_BUCKET) and all("=" in partition for partition in partitions[1:]):
                listing.add(name, f"{self._location}/{path}")

        self._each_below(take)
        return listing.listed()

    def delete(self, files: Iterable[str]) -> int:
        """Delete files, several at a time, and return how many. One that is missing counts: a store does not tell."""
        return len(list(_each(self._delete, files)))

    def old(self, naming: Naming, *, before: datetime) -> OldFiles:
        """List what was written `before`. It takes one request for each thousand files of the table."""
        listing = OldFiles(old=[])

        def take(path: str, entry: FileEntry) -> None:
            folder, _, name = path.rpartition("/")
            if not name or not (folder in FOLDERS or _is_bucket(folder, naming)):
                return
            listing.files += 1
            if may_be_orphan(path, name, naming) and entry.modified < before:
                listing.old.append(_old_file(path, size=entry.size, modified=entry.modified, version=entry.version))

        self._each_below(take)
        return listing

    def delete_unchanged(self, files: Iterable[OldFile]) -> tuple[OldFile, ...]:
        """Delete files that are as they were listed, several at a time."""
        return tuple(file for file in _each(self._delete_unchanged, files) if file is not None)

    def clock(self) -> datetime:
        """Return the current time of the store: a file is written, and deleted again."""
        file = f"{self._location}/{OURS}/clock-{uuid.uuid4().hex}"
        self._storage.ask(file, lambda client, path: client.put(path, b"-"))
        written: datetime = self._storage.ask(file, lambda client, path: client.head(path))["last_modified"]
        self._delete(file)
        return written

    def write(self, file: str, content: bytes) -> None:
        """Write a file in the place of the one before. A store writes it whole, or not at all."""
        self._storage.ask(file, lambda client, path: client.put(path, content))

    def hint_of_oldest(self, number: int) -> None:
        """Write Paimon's hint of the oldest snapshot."""
        self.write(f"{self._location}/snapshot/EARLIEST", str(number).encode())

    def _each_below(self, take: Callable[[str, FileEntry], None]) -> None:
        """Give `take` each file of the table with its path below the location."""
        with contextlib.suppress(FileNotFoundError):
            self._storage.each_below(self._location, take)

    def _delete(self, file: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._storage.ask(file, lambda client, path: client.delete(path))

    def _delete_unchanged(self, old_file: OldFile) -> OldFile | None:
        file = f"{self._location}/{old_file.path}"
        try:
            head = self._storage.ask(file, lambda client, path: client.head(path))
        except FileNotFoundError:
            return None
        version = str(head["e_tag"] or "")
        if _old_file(old_file.path, size=head["size"], modified=head["last_modified"], version=version) != old_file:
            return None
        self._delete(file)
        return old_file


def _each(act: Callable[[_T], _R], things: Iterable[_T]) -> Iterator[_R]:
    """Yield what `act` returns of each. Several are under way at a time. The first error ends the others."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as threads:
        try:
            yield from threads.map(act, things)
        finally:
            threads.shutdown(cancel_futures=True)


def _is_bucket(folder: str, naming: Naming) -> bool:
    *partitions, bucket = folder.split("/")
    return naming.is_bucket(bucket, len(partitions)) and all(
        naming.is_partition(name, depth) for depth, name in enumerate(partitions)
    )


def _old_file(path: str, *, size: int, modified: datetime, version: str) -> OldFile:
    """Return a file as it is known. A listing tells milliseconds of its time, and an answer to HEAD tells none."""
    seconds = int((modified - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return OldFile(path=path, size=size, modified_ns=seconds * 10**9, version=version)


TableFiles = FilesOnDisk | FilesInStore
"""What deletes files asks here, and knows neither. Each act may be repeated."""


def table_files(table: OpenTable) -> TableFiles:
    """Return the files of a table. Raises PermanentError for a store in which nothing is deleted."""
    location, storage = table.table.location, table.storage
    if is_local(location):
        return FilesOnDisk(location, run=table.assignment.run)
    holder = storage.holder(location) if isinstance(storage, ScatteredStorage) else storage
    if not isinstance(holder, ObjectStorage):
        raise PermanentError(f"nothing is deleted in {location}: its store was not tried")
    return FilesInStore(location, holder)
