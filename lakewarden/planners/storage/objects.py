"""Object stores, through obstore: Amazon S3 and compatible stores, Google Cloud Storage and Azure.

obstore is the crate object_store of Apache Arrow. Its requests run without Python and without the interpreter lock, so
that many threads of one process can poll many tables.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import (
    EPOCH,
    FileTooLargeError,
    StoreRefusedError,
    refused,
    those_that,
    too_many,
)

_T = TypeVar("_T")
_MOST_CLIENTS = 256
"""The most clients that are kept. Each bucket has a client and connections of its own. Files of a catalog's table may
name any bucket."""

_LISTED_AT_ONCE = 20
_A_PAGE = 1000
_ROWS_AT_ONCE = 10_000
_ENTRIES_FOR_A_NAME = 10
_LONGEST_LISTING = 100 * MOST_ENTRIES
"""The entries for which a listing without a limit may take its time."""

_STATUS = re.compile(r"status code: (\d{3})")
_WORDS = 600


_Row = tuple[str, int, int, str]
"""Of an object: the path, the size, microseconds since the epoch, and the ETag."""

_Listed = tuple[Sequence[_Row], Sequence[str]]
"""A listing: its objects, and its folders."""


class ObjectStorage:
    """The buckets of one kind of store, with the same settings.

    Stores have no times of folders. So a stamp is a digest of one listing: names, sizes, times and ETags. It misses
    nothing that a listing shows. A store does not know empty folders. A folder without entries counts as missing, even
    if an empty object marks it. Any thread may use it, but the process must not fork after the first request.
    """

    def __init__(self, open_client: Callable[[str], Any], *, timeout: timedelta) -> None:
        """Prepare the storage. `open_client` is called with a bucket (for Azure `container@account`) at its first
        request, until it succeeds. The client itself ends each request in time. A whole listing ends after `timeout`
        for each MOST_ENTRIES that it may have.
        """
        self._open_client = open_client
        self._timeout = timeout
        self._opening = threading.Lock()
        self._opened: dict[str, Any] = {}

    def stamp(self, location: str) -> str:
        """Return a digest of the folder's listing. It takes one request for each 1,000 entries."""

        def listed(client: Any, path: str) -> _Listed:
            return _listed(client.list_with_delimiter(path, return_arrow=True), path, location, MOST_ENTRIES)

        objects, folders = self.ask(location, listed)
        text = repr((sorted(objects), sorted(folders)))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def changed_at(self, location: str) -> datetime | None:
        """Return None: the stamp depends on the content of the folder, and not on the time of its change."""
        return None

    def version(self, location: str) -> str:
        """Return the file's ETag and its time. It takes one request, and the answer has no body."""
        head = self.ask(location, lambda client, path: client.head(path))
        return f"{head['e_tag']}.{head['last_modified'].timestamp()}"

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries. It reads all pages of the listing, or raises an error."""

        def listed(client: Any, path: str) -> _Listed:
            pages = client.list_with_delimiter_async(path, return_arrow=True)
            return _listed(self._in_time(pages, most), path, location, most)

        objects, folders = self.ask(location, listed)
        return [*map(_file, objects), *map(_folder, folders)]

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield the folder's entries. The client holds the whole listing, in about 250 bytes for each entry."""

        def listed(client: Any, path: str) -> Any:
            pages = client.list_with_delimiter_async(path, return_arrow=True)
            return self._in_time(pages, _LONGEST_LISTING)

        listing = self.ask(location, listed)
        path = location.partition("://")[2].partition("/")[2]
        folders = [folder for folder in listing["common_prefixes"] if folder != path]
        yield from map(_folder, folders)
        empty = not folders
        objects = listing["objects"]
        for begin in range(0, objects.num_rows, _ROWS_AT_ONCE):
            rows = _rows(objects.slice(begin, min(_ROWS_AT_ONCE, objects.num_rows - begin)))
            kept = [row for row in rows if row[0] != path]
            empty = empty and not kept
            yield from map(_file, kept)
        if empty:
            raise FileNotFoundError(location)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return the names that the folder has.

        One page of a listing answers for a thousand files. So a listing is read first, as far as that is less than the
        requests for the single files.
        """
        unseen, limit = set(names), _ENTRIES_FOR_A_NAME * len(names)

        def whole_listing(client: Any, path: str) -> bool:
            prefix, seen = f"{path}/" if path else "", 0
            for page in client.list(path or None, chunk_size=_A_PAGE):
                unseen.difference_update(entry["path"].removeprefix(prefix) for entry in page)
                seen += len(page)
                if seen > limit:
                    return False
            return True

        def is_there(name: str) -> bool:
            try:
                self.version(f"{location}/{name}")
            except FileNotFoundError:
                return False
            except StoreRefusedError:  # Amazon's answer for a missing file, if the client may list this folder alone
                return self.holds(f"{location}/{name}")
            return True

        ended = self.ask(location, whole_listing)
        alone = () if ended else those_that(is_there, list(unseen))
        return [*(name for name in names if name not in unseen), *alone]

    def each_below(self, location: str, take: Callable[[str, FileEntry], None]) -> None:
        """Give `take` every file below the folder: one request for each thousand."""

        def all_pages(client: Any, path: str) -> None:
            prefix, empty = f"{path}/" if path else "", True
            for page in client.list(path or None):
                for entry in page:
                    below = entry["path"].removeprefix(prefix)
                    if entry["path"] == path:
                        continue
                    empty = False
                    try:
                        take(below, _entry(below, entry))
                    except StopIteration:
                        return
            if empty:
                raise FileNotFoundError(location)

        self.ask(location, all_pages)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content. If it is larger than `limit` bytes, nothing is fetched."""

        def content(client: Any, path: str) -> bytes:
            got = client.get(path)
            if got.meta["size"] > limit:
                raise FileTooLargeError(f"{location} is larger than {limit} bytes")
            whole: bytes = got.bytes().to_bytes()
            return whole

        return self.ask(location, content)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return a part of the file. It takes one request. Stores refuse it if it begins at or beyond the
        file's end.
        """

        def part(client: Any, path: str) -> bytes:
            try:
                content: bytes = client.get_range(path, start=begin, length=size).to_bytes()
            except FileNotFoundError:
                raise
            except Exception:
                if begin >= client.head(path)["size"]:
                    return b""
                raise
            return content

        return self.ask(location, part)

    def holds(self, location: str) -> bool:
        """Return whether there is a file, by a listing that begins immediately before it: one request, as a rule.

        If a client may not list the whole bucket, the answer for a missing file is 403, so that a request for the file
        does not tell.
        """

        def listed(client: Any, path: str) -> bool:
            folder, _, _ = path.rpartition("/")
            for page in client.list(folder, offset=path[:-1], chunk_size=_LISTED_AT_ONCE):
                for entry in page:
                    if entry["path"] >= path:
                        return bool(entry["path"] == path)
            return False

        return self.ask(location, listed)

    def ask(self, location: str, act: Callable[[Any, str], _T]) -> _T:
        """Return the result of `act`, called with the bucket's client and the location's path in it. Errors of the
        client are translated. If the store refuses access, the client is opened again for the next request, because its
        secret may have been replaced.
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

    def _in_time(self, answer: Awaitable[_T], most: int) -> _T:
        """Return the answer. The time limit grows with the number of entries, because their pages come one after the
        other.
        """
        import asyncio  # noqa: PLC0415 - 4 MiB in each process, also in those that read disks alone

        async def awaited() -> _T:
            async with asyncio.timeout(self._timeout.total_seconds() * max(1, most // MOST_ENTRIES)):
                return await answer

        return asyncio.run(awaited())

    def _client(self, host: str) -> Any:
        with self._opening:
            if host not in self._opened:
                client = self._open_client(host)
                if len(self._opened) >= _MOST_CLIENTS:
                    del self._opened[next(iter(self._opened))]
                self._opened[host] = client
            return self._opened[host]


def said(error: Exception) -> str:
    """Return the client's own message, without its debug text and cut short. It contains the store's answer."""
    return f"{error}".partition("\n\nDebug source")[0][:_WORDS].rstrip(": \n")


def _status(error: Exception) -> str:
    """Return the HTTP status of the answer. It is empty if there was none."""
    match = _STATUS.search(said(error))
    return "" if match is None else match[1]


def _found_no_credentials(error: Exception) -> bool:
    """Whether the client had no credentials, and asked the machine's cloud for some (169.254.169.254) without
    success.
    """
    return "169.254.169.254" in said(error)


def _listed(listing: Any, folder: str, location: str, most: int) -> _Listed:
    """Return a listing that has entries, but not too many. As Python objects they are ten times as large.

    The mark of the folder itself is left out. Raises FileNotFoundError and FileTooLargeError.
    """
    objects, folders = listing["objects"], [path for path in listing["common_prefixes"] if path != folder]
    if objects.num_rows + len(folders) > most:
        raise too_many(location, most)
    kept = [row for row in _rows(objects) if row[0] != folder]
    if not kept and not folders:
        raise FileNotFoundError(location)
    return kept, folders


def _rows(objects: Any) -> Iterator[_Row]:
    from arro3.core import DataType  # noqa: PLC0415 - comes with the client, which is optional

    versions = [version or "" for version in objects["e_tag"].to_pylist()]
    written = objects["last_modified"].cast(DataType.int64()).to_pylist()
    return zip(objects["path"].to_pylist(), objects["size"].to_pylist(), written, versions, strict=True)


def _file(row: _Row) -> FileEntry:
    path, size, written, version = row
    return FileEntry(name=_name(path), size=size, modified=EPOCH + timedelta(microseconds=written), version=version)


def _folder(path: str) -> FileEntry:
    return FileEntry(name=_name(path), size=0, modified=EPOCH, is_folder=True)


def _entry(path: str, meta: Any) -> FileEntry:
    version = str(meta["e_tag"] or "")
    return FileEntry(name=_name(path), size=meta["size"], modified=meta["last_modified"], version=version)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
