"""Local disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import moment, too_many, within

_T = TypeVar("_T")


class LocalStorage:
    """Local disks, by the operating system's own calls."""

    def stamp(self, location: str) -> str:
        """Return the folder's modification time and inode: one stat."""
        try:
            status = os.stat(location)  # noqa: PTH116 - the poll of every table: a Path costs more than the call
        except NotADirectoryError as error:
            raise FileNotFoundError(location) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TemporaryError(f"{location} cannot be looked at: {error.strerror}") from error
        return f"{status.st_mtime_ns:x}.{status.st_ino:x}"

    def changed_at(self, location: str) -> datetime | None:
        """Return the folder's modification time."""
        return moment(_translated(location, lambda: os.stat(location)).st_mtime)  # noqa: PTH116 - as above

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries. One that goes away meanwhile is left out, as if it had gone before."""

        def scan() -> list[FileEntry]:
            entries: list[FileEntry] = []
            with os.scandir(location) as found:
                for entry in found:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                    if len(entries) == most:
                        raise too_many(location, most)
                    entries.append(
                        FileEntry(
                            name=entry.name,
                            size=status.st_size,
                            modified=moment(status.st_mtime),
                            is_folder=entry.is_dir(),
                        )
                    )
            return entries

        return _translated(location, scan)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""

        def content() -> bytes:
            with open(location, "rb") as file:  # noqa: PTH123 - as above
                return file.read(limit + 1)

        return within(limit, _translated(location, content), location)


def _translated(location: str, act: Callable[[], _T]) -> _T:
    """Do `act`, with the operating system's errors in our own words."""
    try:
        return act()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(location) from error
    except OSError as error:
        raise TemporaryError(f"{location} cannot be read: {error.strerror or error}") from error
