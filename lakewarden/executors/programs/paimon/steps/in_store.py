"""The files of a table on S3. A store has neither folders nor links. Of a file it tells the size, the time and an ETag.

Source of the hint: `utils.HintFileUtils` of Paimon 1.3.1. It is a number as text.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from lakewarden.executors.programs.paimon.steps.disk import Listed
from lakewarden.executors.programs.paimon.steps.old_files import OldFile, OldFiles, may_be_orphan
from lakewarden.planners.formats.paimon.deletion.orphan_names import FOLDERS, Naming
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.objects import ObjectStorage

_AT_ONCE = 16
_BUCKET = "bucket-"
_T = TypeVar("_T")
_R = TypeVar("_R")


class FilesInStore:
    """The files below one table's location: fulfils `table_files.TableFiles`. Any failure raises a LakewardenError."""

    def __init__(self, location: str, storage: ObjectStorage) -> None:
        self._location, self._storage = location, storage

    def require_own_folders(self) -> None:
        """Do nothing: a store has no links."""

    def in_buckets(self, names: Collection[str]) -> Listed:
        """List the buckets for files with these names. It takes one request for each thousand files of the table."""
        files, found, twice = 0, dict[str, str](), set[str]()

        def take(path: str, _: FileEntry) -> None:
            nonlocal files
            *partitions, bucket, name = ("", *path.split("/"))
            if not name or not bucket.startswith(_BUCKET) or not all("=" in one for one in partitions[1:]):
                return
            files += 1
            if name in names:
                if name in found:
                    twice.add(name)
                found[name] = f"{self._location}/{path}"

        self._each_below(take)
        return Listed(files=files, found={name: file for name, file in found.items() if name not in twice})

    def delete(self, files: Iterable[str]) -> int:
        """Delete files, several at a time, and return how many. One that is missing counts: a store does not tell."""
        return len(list(_each(self._delete, files)))

    def old(self, naming: Naming, *, before: datetime) -> OldFiles:
        """List what was written `before`. It takes one request for each thousand files of the table."""
        found = OldFiles(old=[])

        def take(path: str, entry: FileEntry) -> None:
            folder, _, name = path.rpartition("/")
            if not name or not (folder in FOLDERS or _is_bucket(folder, naming)):
                return
            found.files += 1
            if may_be_orphan(path, name, naming) and entry.modified < before:
                found.old.append(_old_file(path, size=entry.size, modified=entry.modified, version=entry.version))

        self._each_below(take)
        return found

    def delete_unchanged(self, files: Iterable[OldFile]) -> tuple[OldFile, ...]:
        """Delete files that are as they were listed, several at a time."""
        return tuple(one for one in _each(self._delete_unchanged, files) if one is not None)

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

    def _delete_unchanged(self, one: OldFile) -> OldFile | None:
        file = f"{self._location}/{one.path}"
        try:
            found = self._storage.ask(file, lambda client, path: client.head(path))
        except FileNotFoundError:
            return None
        version = str(found["e_tag"] or "")
        if _old_file(one.path, size=found["size"], modified=found["last_modified"], version=version) != one:
            return None
        self._delete(file)
        return one


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
