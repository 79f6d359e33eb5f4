"""The files of a table on a disk. Links are neither followed nor deleted."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lakewarden.executors.programs.paimon.steps import old_files
from lakewarden.executors.programs.paimon.steps.old_files import OldFile, OldFiles
from lakewarden.executors.programs.paimon.steps.own_folder import disk_clock, write_whole
from lakewarden.planners.formats.paimon.deletion.orphan_names import Naming
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.model.errors import PermanentError

_BUCKET = "bucket-"
_FOLDERS = (
    "snapshot",
    "schema",
    "manifest",
    "index",
    "statistics",
    "tag",
    "branch",
    "consumer",
    "changelog",
    OURS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """What lies in the buckets of a table: how many files, and where those are that were asked for."""

    files: int
    found: dict[str, str]


class FilesOnDisk:
    """The files below one table's folder: fulfils `table_files.TableFiles`. Raises OSError where the disk refuses."""

    def __init__(self, location: str, *, run: str) -> None:
        self._location, self._run = location, run

    def require_own_folders(self) -> None:
        """Raise PermanentError if a folder of the table is a link."""
        require_own_folders(self._location)

    def in_buckets(self, names: Collection[str]) -> Listed:
        """List the buckets for files with these names."""
        return listed(self._location, names)

    def delete(self, files: Iterable[str]) -> int:
        """Delete files one after the other."""
        return sum(map(delete, files))

    def old(self, naming: Naming, *, before: datetime) -> OldFiles:
        """List what was written `before`."""
        return old_files.listed(self._location, naming, before=before)

    def delete_unchanged(self, files: Iterable[OldFile]) -> tuple[OldFile, ...]:
        """Delete files that are as they were listed, one after the other."""
        return tuple(one for one in files if self._delete_unchanged(one))

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

    def _delete_unchanged(self, one: OldFile) -> bool:
        if not old_files.is_still(one, self._location):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._location}/{one.path}")  # noqa: PTH108 - a location
            return True
        return False


def require_own_folders(location: str) -> None:
    """Raise PermanentError if a folder of the table is a link: it may lead to the files of another table."""
    for name in ("", *(f"/{one}" for one in _FOLDERS)):
        if os.path.islink(f"{location}{name}"):  # noqa: PTH114 - a location, as all paths of this package
            raise PermanentError(f"{location}{name} is a link, and nothing is deleted through it: put the folder there")


def listed(location: str, names: Collection[str]) -> Listed:
    """List the buckets of a table for files with these names. A name that is there twice is not found."""
    files, found, twice = 0, dict[str, str](), set[str]()
    for place in files_in_buckets(location):
        files += 1
        name = place.name
        if name in names:
            if name in found:
                twice.add(name)
            found[name] = place.path
    return Listed(files=files, found={name: path for name, path in found.items() if name not in twice})


def files_in_buckets(location: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files in the buckets below a table's folder and below the folders of its partitions."""
    waiting = [location]
    while waiting:
        folder = waiting.pop()
        is_bucket = folder.rpartition("/")[2].startswith(_BUCKET)
        try:
            with os.scandir(folder) as entries:
                for one in entries:
                    if one.is_dir(follow_symlinks=False):
                        if not is_bucket and (one.name.startswith(_BUCKET) or "=" in one.name):
                            waiting.append(one.path)
                    elif is_bucket and one.is_file(follow_symlinks=False):
                        yield one
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
