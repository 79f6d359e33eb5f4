"""Object stores and network file systems, through fsspec."""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, MOST_FILES, FileEntry
from lakewarden.planners.storage.content import EPOCH, moment, refused, those_that, too_many, within
from lakewarden.planners.storage.locations import as_hadoop_reads

_T = TypeVar("_T")
_WRITTEN_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")
_VERSION_KEYS = ("ETag", "etag")


class FsspecStorage:
    """Object stores and network file systems, through fsspec's driver for their scheme.

    As of `ObjectStorage`, a stamp is a digest of one listing, and a folder without entries counts as missing.
    """

    def __init__(self, open_driver: Callable[[], Any], *, timeout: timedelta | None = None) -> None:
        """Prepare the storage. `open_driver` is called at the first request, until it succeeds.

        A request ends after `timeout`, whatever the driver is doing. Drivers that block have no timeout.
        """
        self._open_driver = open_driver
        self._timeout = timeout
        self._opening = threading.Lock()
        self._opened: Any = None

    def stamp(self, location: str) -> str:
        """Return a digest of the folder's listing. It takes one request."""
        digest = hashlib.blake2b(digest_size=12)
        for entry in sorted(self.listing(location), key=lambda e: e.name):
            digest.update(f"{entry.name}\0{entry.size}\0{entry.modified.timestamp()}\0{entry.version}\n".encode())
        return digest.hexdigest()

    def changed_at(self, location: str) -> datetime | None:
        """Return None: the stamp depends on the content of the folder, and not on the time of its change."""
        return None

    def version(self, location: str) -> str:
        """Return the file's size, time and version. It takes one request."""
        entry = self._entry(self._either(location, lambda driver, at, timeouts: driver.info(at, **timeouts)))
        return f"{entry.version}.{entry.modified.timestamp()}.{entry.size}"

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries. It reads all pages of the listing, or raises an error."""

        def entries(driver: Any, at: str, timeouts: dict[str, float]) -> Sequence[FileEntry]:
            infos = driver.ls(at, detail=True, **timeouts)
            folder = driver._strip_protocol(at).rstrip("/")  # noqa: SLF001 - fsspec offers it to callers
            if len(infos) > most:
                raise too_many(location, most)
            below = [self._entry(info) for info in infos if info["name"].rstrip("/") != folder]
            if not below:
                raise FileNotFoundError(location)
            return below

        return self._either(location, entries)

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield the folder's entries. fsspec's drivers return them all at once."""
        yield from self.listing(location, most=MOST_FILES)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return the names that the folder has. It takes one request for each, several at a time."""

        def is_there(name: str) -> bool:
            try:
                self.version(f"{location}/{name}")
            except FileNotFoundError:
                return False
            return True

        return those_that(is_there, names)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""

        def content(driver: Any, at: str, timeouts: dict[str, float]) -> bytes:
            try:
                return bytes(driver.cat_file(at, start=0, end=limit + 1, **timeouts))
            except OSError as error:
                # An empty file on S3 has no first byte: the range "is not satisfiable".
                if error.errno == errno.EINVAL and driver.info(at, **timeouts)["size"] == 0:
                    return b""
                raise

        return within(limit, self._either(location, content), location)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return a part of the file."""

        def part(driver: Any, at: str, timeouts: dict[str, float]) -> bytes:
            try:
                return bytes(driver.cat_file(at, start=begin, end=begin + size, **timeouts))
            except (OSError, ValueError):
                if begin >= driver.info(at, **timeouts)["size"]:
                    return b""
                raise

        return self._either(location, part)

    def _either(self, location: str, act: Callable[[Any, str, dict[str, float]], _T]) -> _T:
        """Return the result of `act` for a location. If nothing is there, take several slashes in a row for one.
        Hadoop's clients write one, and Iceberg's own do not.
        """
        try:
            return self._ask(location, location, act)
        except FileNotFoundError:
            at = as_hadoop_reads(location)
            if at == location:
                raise
            return self._ask(location, at, act)

    @staticmethod
    def _entry(info: Mapping[str, Any]) -> FileEntry:
        written = next((info[key] for key in _WRITTEN_KEYS if info.get(key) is not None), None)
        return FileEntry(
            name=info["name"].rstrip("/").rpartition("/")[2],
            size=int(info.get("size") or 0),
            modified=_written_at(written),
            is_folder=info["type"] == "directory",
            version=str(next((info[key] for key in _VERSION_KEYS if info.get(key)), "")),
        )

    def _ask(self, location: str, at: str, act: Callable[[Any, str, dict[str, float]], _T]) -> _T:
        """Return the result of `act`, called with the driver, the location as it is asked for, and the argument for the
        longest time of a request, which fsspec's asynchronous drivers take. Errors of the driver are translated. If the
        store refuses access, the driver is opened again for the next request, because its secret may have been
        replaced.
        """
        with self._opening:
            if self._opened is None:
                self._opened = self._open_driver()
            driver = self._opened
        timeouts = {}
        if self._timeout is not None and getattr(driver, "async_impl", False):
            timeouts["timeout"] = self._timeout.total_seconds()
        try:
            return act(driver, at, timeouts)
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
    """Return a store's modification time in any spelling of its driver. The epoch if it has none."""
    match value:
        case datetime():
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        case int() | float():
            return moment(value / 1000 if value > 1e11 else value)  # HDFS counts milliseconds
        case str():
            return datetime.fromisoformat(value).astimezone(UTC)
        case _:
            return EPOCH
