"""Object stores: Amazon S3 and what speaks its language, Google Cloud Storage and Azure, through obstore.

obstore is the crate object_store of Apache Arrow: requests run without Python and without its interpreter lock, so that
many threads of one process poll many tables.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import EPOCH, TooLargeError, refused, too_many

_T = TypeVar("_T")
_MOST_CLIENTS = 256
"""Each bucket has a client of its own, with connections of its own; files of a catalog's table may name any bucket."""

_STATUS = re.compile(r"status code: (\d{3})")
_WORDS = 600


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listed:
    """One listing with its folders apart: of each object path, size, microseconds since the epoch, and ETag."""

    objects: Sequence[tuple[str, int, int, str]]
    folders: Sequence[str]


class ObjectStorage:
    """The buckets of one kind of store, reached by the same settings.

    Stores have no folder times, so a stamp is a digest of one listing: names, sizes, times and ETags. It misses nothing
    that a listing shows. A store does not know empty folders: one without entries counts as missing, also where an
    empty object marks it. For any thread, and for a process that does not fork once it has asked.
    """

    def __init__(self, open_client: Callable[[str], Any], *, timeout: timedelta) -> None:
        """`open_client` is called with a bucket (of Azure `container@account`) when that is first asked, again and
        again until it has not raised. Each request is given up by the client itself, a whole listing after `timeout`
        for each MOST_ENTRIES that it may have.
        """
        self._open_client = open_client
        self._timeout = timeout
        self._opening = threading.Lock()
        self._opened: dict[str, Any] = {}

    def stamp(self, location: str) -> str:
        """Return a digest of the folder's listing: one request for each thousand entries."""

        def listed(client: Any, path: str) -> _Listed:
            return _listed(client.list_with_delimiter(path, return_arrow=True), path, location, MOST_ENTRIES)

        found = self.ask(location, listed)
        told = repr((sorted(found.objects), sorted(found.folders)))
        return hashlib.blake2b(told.encode(), digest_size=12).hexdigest()

    def changed_at(self, location: str) -> datetime | None:
        """Return None: the stamp is made of what the folder holds, not of when it changed."""
        return None

    def version(self, location: str) -> str:
        """Return the file's ETag, and when it was written: one request without an answer's body."""
        found = self.ask(location, lambda client, path: client.head(path))
        return f"{found['e_tag']}.{found['last_modified'].timestamp()}"

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries: all pages of the listing, or an error."""

        def listed(client: Any, path: str) -> _Listed:
            pages = client.list_with_delimiter_async(path, return_arrow=True)
            return _listed(asyncio.run(self._in_time(pages, most)), path, location, most)

        found = self.ask(location, listed)
        files = [
            FileEntry(name=_name(path), size=size, modified=EPOCH + timedelta(microseconds=written), version=version)
            for path, size, written, version in found.objects
        ]
        return files + [FileEntry(name=_name(path), size=0, modified=EPOCH, is_folder=True) for path in found.folders]

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content, of which nothing is fetched if it is larger than `limit` bytes."""

        def content(client: Any, path: str) -> bytes:
            got = client.get(path)
            if got.meta["size"] > limit:
                raise TooLargeError(f"{location} is larger than {limit} bytes")
            whole: bytes = got.bytes().to_bytes()
            return whole

        return self.ask(location, content)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return a part of the file: one request, which stores deny where it begins at the file's end or beyond."""

        def part(client: Any, path: str) -> bytes:
            try:
                found: bytes = client.get_range(path, start=begin, length=size).to_bytes()
            except FileNotFoundError:
                raise
            except Exception:
                if begin >= client.head(path)["size"]:
                    return b""
                raise
            return found

        return self.ask(location, part)

    def ask(self, location: str, act: Callable[[Any, str], _T]) -> _T:
        """Return what `act` brings, given the bucket's client and the location's path in it, with the client's many
        kinds of errors in our own words. One that was turned away is opened anew the next time: its secret may have
        been replaced.
        """
        host, _, path = location.partition("://")[2].partition("/")
        try:
            return act(self._client(host), path)
        except LakewardenError:
            raise
        except TimeoutError as error:
            raise TemporaryError(f"{location} cannot be read: its store has not answered in time") from error
        except Exception as error:
            status = _status(error)
            if isinstance(error, FileNotFoundError) or status == "404":
                raise FileNotFoundError(location) from error
            if status in ("401", "403") or _found_no_credentials(error):
                self._opened.pop(host, None)
                raise refused(location, said(error)) from error
            if isinstance(error, ValueError):
                raise PermanentError(f"{location!r} is nothing that an object store could hold: {error}") from error
            raise TemporaryError(f"{location} cannot be read: {said(error)}") from error

    async def _in_time(self, answer: Awaitable[_T], most: int) -> _T:
        """Return the answer, as long as it may take for so many entries: their pages come one after the other."""
        async with asyncio.timeout(self._timeout.total_seconds() * max(1, most // MOST_ENTRIES)):
            return await answer

    def _client(self, host: str) -> Any:
        with self._opening:
            if host not in self._opened:
                client = self._open_client(host)
                if len(self._opened) >= _MOST_CLIENTS:
                    del self._opened[next(iter(self._opened))]
                self._opened[host] = client
            return self._opened[host]


def said(error: Exception) -> str:
    """Return the client's own words, without its debug text and not at any length: a store's answer is in them."""
    return f"{error}".partition("\n\nDebug source")[0][:_WORDS].rstrip(": \n")


def _status(error: Exception) -> str:
    """Return the HTTP status that the client was answered with; empty where it was none."""
    found = _STATUS.search(said(error))
    return "" if found is None else found[1]


def _found_no_credentials(error: Exception) -> bool:
    """Whether the client had none, and has asked the machine's cloud for some (169.254.169.254) in vain."""
    return "169.254.169.254" in said(error)


def _listed(found: Any, folder: str, location: str, most: int) -> _Listed:
    """Return a listing that has entries, and not too many: as Python's objects they are ten times as large.

    The mark of the folder itself is left out. Raises FileNotFoundError and TooLargeError.
    """
    from arro3.core import DataType  # noqa: PLC0415 - comes with the client, which is optional

    objects, folders = found["objects"], [path for path in found["common_prefixes"] if path != folder]
    if objects.num_rows + len(folders) > most:
        raise too_many(location, most)
    versions = [version or "" for version in objects["e_tag"].to_pylist()]
    written = objects["last_modified"].cast(DataType.int64()).to_pylist()
    rows = zip(objects["path"].to_pylist(), objects["size"].to_pylist(), written, versions, strict=True)
    kept = [row for row in rows if row[0] != folder]
    if not kept and not folders:
        raise FileNotFoundError(location)
    return _Listed(objects=kept, folders=folders)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
