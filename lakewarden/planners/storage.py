"""The only module that opens files and lists object stores."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import FileEntry, Storage

_T = TypeVar("_T")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_ONE_STORE = {"s3a": "s3", "s3n": "s3"}
_FORBIDDEN = {"*": "a wildcard", "?": "a query or wildcard", "[": "a wildcard", "#": "a fragment", "\0": "a NUL"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRITTEN_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")


def canonical_location(text: str) -> str:
    """Return the one spelling of a table's address, under which it is known whoever names it.

    `file:///x`, `file:/x` and `/x/` are the local path `/x` with symbolic links resolved; `s3a://b/t` is `s3://b/t`.
    Raises PermanentError for an address that is not absolute, holds credentials, a query, a wildcard or a chain of
    protocols (`::`), or climbs with `..` beyond what a path alone can tell.
    """
    for sign, what in _FORBIDDEN.items():
        if sign in text:
            raise PermanentError(f"{text!r} holds {what}, which is no table's address")
    if "::" in text:
        raise PermanentError(f"{text!r} chains protocols, which is no table's address")
    found = _SCHEME.fullmatch(text)
    if found is None:
        return _local(text)
    scheme, rest = found[1].lower(), found[2]
    if scheme in _LOCAL:
        return _local(unquote(_without_empty_host(rest, text)))
    return _remote(_ONE_STORE.get(scheme, scheme), rest, text)


def _without_empty_host(rest: str, text: str) -> str:
    """Return the path of a file URI: `///x`, `//localhost/x` and `/x` are all `/x`."""
    path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
    if path.startswith("//") and not path.startswith("///"):
        raise PermanentError(f"{text!r} names a file on another host")
    return path


def _local(path: str) -> str:
    if not path.startswith("/"):
        raise PermanentError(f"{path!r} is not absolute")
    return os.path.realpath(re.sub(r"/{2,}", "/", path))


def _remote(scheme: str, rest: str, text: str) -> str:
    if not rest.startswith("//"):
        raise PermanentError(f"{text!r} needs the form {scheme}://bucket/path")
    host, _, path = rest[2:].partition("/")
    if not host:
        raise PermanentError(f"{text!r} names no bucket or host")
    if "@" in host:
        raise PermanentError(f"the address of a table on {host.rpartition('@')[2]!r} holds credentials")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PermanentError(f"{text!r} climbs with '..'")
    return f"{scheme}://{posixpath.join(host, *parts)}"


def storage_for(location: str) -> Storage:
    """Return the storage that holds a canonical location.

    Raises PermanentError where no driver for its scheme is installed.
    """
    scheme, separator, _ = location.partition("://")
    return _remote_storage(scheme) if separator else _LOCAL_STORAGE


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
        return _moment(_translated(location, lambda: os.stat(location)).st_mtime)  # noqa: PTH116 - as above

    def listing(self, location: str) -> Sequence[FileEntry]:
        """Return the folder's entries. One that goes away meanwhile is left out, as if it had gone before."""

        def scan() -> list[FileEntry]:
            entries = []
            with os.scandir(location) as found:
                for entry in found:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                    entries.append(
                        FileEntry(
                            name=entry.name,
                            size=status.st_size,
                            modified=_moment(status.st_mtime),
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

        return _within(limit, _translated(location, content), location)


def _translated(location: str, act: Callable[[], _T]) -> _T:
    """Do `act`, with the operating system's errors in our own words."""
    try:
        return act()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(location) from error
    except OSError as error:
        raise TemporaryError(f"{location} cannot be read: {error.strerror or error}") from error


def _within(limit: int, content: bytes, location: str) -> bytes:
    if len(content) > limit:
        raise PermanentError(f"{location} is larger than {limit} bytes")
    return content


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


class FsspecStorage:
    """Object stores and network file systems, through fsspec's driver of their scheme.

    Stores have no folder times, so a stamp is a digest of one listing: names, sizes and times. It misses nothing
    that a listing shows. A store does not know empty folders: one without entries counts as missing.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver

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
        found = self._asked(location, lambda: self._driver.ls(location, detail=True))
        folder = self._driver._strip_protocol(location).rstrip("/")  # noqa: SLF001 - fsspec offers it to callers
        entries = [self._entry(one) for one in found if one["name"].rstrip("/") != folder]
        if not entries:
            raise FileNotFoundError(location)
        return entries

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""
        content: bytes = self._asked(location, lambda: self._driver.cat_file(location, start=0, end=limit + 1))
        return _within(limit, content, location)

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
            return _moment(value / 1000 if value > 1e11 else value)  # HDFS counts milliseconds
        case str():
            return datetime.fromisoformat(value).astimezone(UTC)
        case _:
            return _EPOCH


_LOCAL_STORAGE = LocalStorage()


@cache
def _remote_storage(scheme: str) -> FsspecStorage:
    import fsspec  # noqa: PLC0415 - a daemon of local tables needs none of it

    try:
        return FsspecStorage(fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True))
    except (ImportError, ValueError) as error:
        raise PermanentError(f"no driver for {scheme}:// locations is installed: {error}") from error
