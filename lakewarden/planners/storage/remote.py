"""Object stores and network file systems."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.content import EPOCH, moment, within

_WRITTEN_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")


class FsspecStorage:
    """Object stores and network file systems, through fsspec's driver of their scheme.

    Stores have no folder times, so a stamp is a digest of one listing: names, sizes and times. It misses nothing
    that a listing shows. A store does not know empty folders: one without entries counts as missing.
    """

    def __init__(self, open_driver: Callable[[], Any]) -> None:
        """`open_driver` is called when the storage is first asked, again and again until it has not raised."""
        self._open_driver = open_driver
        self._opening = threading.Lock()
        self._opened: Any = None

    def stamp(self, location: str) -> str:
        """Return a digest of the folder's listing: one request."""
        digest = hashlib.blake2b(digest_size=12)
        for entry in sorted(self.listing(location), key=lambda e: e.name):
            digest.update(f"{entry.name}\0{entry.size}\0{entry.modified.timestamp()}\n".encode())
        return digest.hexdigest()

    def changed_at(self, location: str) -> datetime | None:
        """Return None: the stamp is made of what the folder holds, not of when it changed."""
        return None

    def listing(self, location: str) -> Sequence[FileEntry]:
        """Return the folder's entries."""
        driver = self._driver()
        found = self._asked(location, lambda: driver.ls(location, detail=True))
        folder = driver._strip_protocol(location).rstrip("/")  # noqa: SLF001 - fsspec offers it to callers
        entries = [self._entry(one) for one in found if one["name"].rstrip("/") != folder]
        if not entries:
            raise FileNotFoundError(location)
        return entries

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""
        driver = self._driver()
        content: bytes = self._asked(location, lambda: driver.cat_file(location, start=0, end=limit + 1))
        return within(limit, content, location)

    def _driver(self) -> Any:
        with self._opening:
            if self._opened is None:
                self._opened = self._open_driver()
            return self._opened

    @staticmethod
    def _entry(one: Mapping[str, Any]) -> FileEntry:
        written = next((one[key] for key in _WRITTEN_KEYS if one.get(key) is not None), None)
        return FileEntry(
            name=one["name"].rstrip("/").rpartition("/")[2],
            size=int(one.get("size") or 0),
            modified=_written_at(written),
            is_folder=one["type"] == "directory",
        )

    @staticmethod
    def _asked(location: str, ask: Callable[[], Any]) -> Any:
        """Ask the driver, with its many kinds of errors in our own words."""
        try:
            return ask()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(location) from error
        except Exception as error:
            raise TemporaryError(f"{location} cannot be read: {type(error).__name__}: {error}") from error


def _written_at(value: Any) -> datetime:
    """Return a store's modification time, however its driver spells it; the epoch where it has none."""
    match value:
        case datetime():
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        case int() | float():
            return moment(value / 1000 if value > 1e11 else value)  # HDFS counts milliseconds
        case str():
            return datetime.fromisoformat(value).astimezone(UTC)
        case _:
            return EPOCH
