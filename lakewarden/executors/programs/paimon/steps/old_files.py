"""What may be an orphan of a table: old files with names that Paimon gives. On a disk links are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lakewarden.planners.formats.paimon.deletion.orphan_names import FOLDERS, Naming


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
    found, limit = OldFiles(old=[]), before.timestamp() * 1e9
    for entry, path in _files(location, naming):
        found.files += 1
        if not may_be_orphan(path, entry.name, naming):
            continue
        try:
            told = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # it was deleted meanwhile
            continue
        if told.st_mtime_ns < limit:
            found.old.append(_old_file(path, told))
    return found


def is_still(one: OldFile, location: str) -> bool:
    """Whether a file is there as it was listed, in folders that are no links."""
    parent = location
    for folder in one.path.split("/")[:-1]:
        parent = f"{parent}/{folder}"
        if os.path.islink(parent):  # noqa: PTH114 - a location, as all paths of this package
            return False
    try:
        told = os.lstat(f"{location}/{one.path}")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(told.st_mode) and _old_file(one.path, told) == one


def _old_file(path: str, told: os.stat_result) -> OldFile:
    return OldFile(path=path, size=told.st_size, modified_ns=told.st_mtime_ns, inode=told.st_ino)


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
