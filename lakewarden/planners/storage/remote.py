"""Object stores and network file systems."""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import EPOCH, moment, refused, too_many, within

_T = TypeVar("_T")
_WRITTEN_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")
_VERSION_KEYS = ("ETag", "etag")


class FsspecStorage:
    """Object stores and network file systems, through fsspec's driver of their scheme.

    Stores have no folder times, so a stamp is a digest of one listing: names, sizes, times and versions. It misses
    nothing that a listing shows. A store does not know empty folders: one without entries counts as missing, also
    where an empty object marks it.
    """

    def __init__(self, open_driver: Callable[[], Any], *, timeout: timedelta | None = None) -> None:
        """`open_driver` is called when the storage is first asked, again and again until it has not raised.

        A request is given up after `timeout`, whatever the driver tries meanwhile; drivers that block know none.
        """
        self._open_driver = open_driver
        self._timeout = timeout
        self._opening = threading.Lock()
        self._opened: Any = None

    def stamp(self, location: str) -> str:
        """Return a digest of the folder's listing: one request."""
        digest = hashlib.blake2b(digest_size=12)
        for entry in sorted(self.listing(location), key=lambda e: e.name):
            digest.update(f"{entry.name}\0{entry.size}\0{entry.modified.timestamp()}\0{entry.version}\n".encode())
        return digest.hexdigest()

    def changed_at(self, location: str) -> datetime | None:
        """Return None: the stamp is made of what the folder holds, not of when it changed."""
        return None

    def version(self, location: str) -> str:
        """Return the file's size, time and version: one request."""
        driver = self._driver()
        found = self._entry(self._asked(location, lambda: driver.info(location, **self._patience(driver))))
        return f"{found.version}.{found.modified.timestamp()}.{found.size}"

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries: all pages of the listing, or an error."""
        driver = self._driver()
        found = self._asked(location, lambda: driver.ls(location, detail=True, **self._patience(driver)))
        folder = driver._strip_protocol(location).rstrip("/")  # noqa: SLF001 - fsspec offers it to callers
        if len(found) > most:
            raise too_many(location, most)
        entries = [self._entry(one) for one in found if one["name"].rstrip("/") != folder]
        if not entries:
            raise FileNotFoundError(location)
        return entries

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""
        driver = self._driver()
        patience = self._patience(driver)

        def content() -> bytes:
            try:
                return bytes(driver.cat_file(location, start=0, end=limit + 1, **patience))
            except OSError as error:
                # Of an empty file S3 has no first byte to give: the range "is not satisfiable".
                if error.errno == errno.EINVAL and driver.info(location, **patience)["size"] == 0:
                    return b""
                raise

        return within(limit, self._asked(location, content), location)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return a part of the file."""

        def part(driver: Any, patience: dict[str, float]) -> bytes:
            try:
                return bytes(driver.cat_file(location, start=begin, end=begin + size, **patience))
            except (OSError, ValueError):
                if begin >= driver.info(location, **patience)["size"]:
                    return b""
                raise

        return self.ask(location, part)

    def ask(self, location: str, act: Callable[[Any, dict[str, float]], _T]) -> _T:
        """Return what `act` brings, given the driver and the argument that tells it how long a request may take."""
        driver = self._driver()
        answer: _T = self._asked(location, lambda: act(driver, self._patience(driver)))
        return answer

    def _patience(self, driver: Any) -> dict[str, float]:
        """Return the argument that tells fsspec's asynchronous drivers how long a request may take, in seconds."""
        if self._timeout is None or not getattr(driver, "async_impl", False):
            return {}
        return {"timeout": self._timeout.total_seconds()}

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
            version=str(next((one[key] for key in _VERSION_KEYS if one.get(key)), "")),
        )

    def _asked(self, location: str, ask: Callable[[], Any]) -> Any:
        """Ask the driver, with its many kinds of errors in our own words. One that was turned away is opened anew
        the next time: its secret may have been replaced.
        """
        try:
            return ask()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(location) from error
        except PermissionError as error:
            self._opened = None
            raise refused(location, error) from error
        except LakewardenError:
            raise
        except TimeoutError as error:
            raise TemporaryError(f"{location} cannot be read: its store has not answered in time") from error
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
