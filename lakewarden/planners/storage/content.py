"""What every storage does in the same way with content, sizes and errors."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Storage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime(9000, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()

_REQUESTS_AT_ONCE = 32
_READ_AT_A_TIME = 16
_ASKED_AT_ONCE = 1000
_MOST_FOLDERS = 100


_Read = TypeVar("_Read")


class FileTooLargeError(PermanentError):
    """The file or folder exists, and is larger than the limit."""


class StoreRefusedError(TemporaryError):
    """The store refused the credentials, or the process found none. The next request may have some."""


def listed(folder: str, storage: Storage, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
    """Return a folder's entries. A missing folder has none, as object stores have no empty folders."""
    try:
        return storage.listing(folder, most=most)
    except FileNotFoundError:
        return ()


def refused(location: str, reason: object) -> StoreRefusedError:
    """Return the error for a store that refused access."""
    return StoreRefusedError(f"{location}: its store denies access: {reason}")


def too_many(location: str, most: int) -> FileTooLargeError:
    """Return the error for a folder of more than `most` entries."""
    return FileTooLargeError(f"{location} has more than {most} entries")


def within(limit: int, content: bytes, location: str) -> bytes:
    """Return `content`. Raises TooLargeError if it is larger than `limit` bytes."""
    if len(content) > limit:
        raise too_large(location, limit)
    return content


def too_large(location: str, limit: int) -> FileTooLargeError:
    """Return the error for a file that has more than `limit` bytes."""
    return FileTooLargeError(f"{location} is larger than {limit} bytes")


def those_that(are: Callable[[str], bool], names: Iterable[str]) -> list[str]:
    """Return the names for which a request says so. Several requests are under way at a time. The first error ends
    them all.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - processes that only read do not need it

    matches: list[str] = []
    left = iter(names)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        while some := list(itertools.islice(left, _ASKED_AT_ONCE)):
            matches += itertools.compress(some, threads.map(are, some))
    return matches


def read_ahead(files: Iterable[str], read: Callable[[str], _Read]) -> Iterator[tuple[str, _Read]]:
    """Yield files in their order, each with what `read` returns of it. Several are read at a time, because stores
    answer slowly. The reading is never far ahead. Raises what `read` raises.
    """
    from concurrent.futures import Future, ThreadPoolExecutor  # noqa: PLC0415 - not every process reads so

    with ThreadPoolExecutor(_READ_AT_A_TIME, thread_name_prefix="read-ahead") as pool:
        ahead: deque[tuple[str, Future[_Read]]] = deque()
        try:
            for file in files:
                ahead.append((file, pool.submit(read, file)))
                if len(ahead) > _READ_AT_A_TIME:
                    first, content = ahead.popleft()
                    yield first, content.result()
            while ahead:
                first, content = ahead.popleft()
                yield first, content.result()
        finally:
            for _, unwanted in ahead:
                unwanted.cancel()


def bytes_of(files: Iterable[str], storage: Storage) -> int | None:
    """Return how many bytes the files have that still exist. It takes one listing of each of their folders. None if
    there are more than 100 folders, or if one cannot be listed: the figure is for people, and holds nothing up.
    """
    names: dict[str, set[str]] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        names.setdefault(folder, set()).add(name)
        if len(names) > _MOST_FOLDERS:
            return None

    def size(folder: str) -> int:
        return sum(entry.size for entry in storage.entries(folder) if entry.name in names[folder])

    try:
        return sum(size_of_folder for _, size_of_folder in read_ahead(names, size))
    except (OSError, LakewardenError):
        return None


def moment(seconds: float) -> datetime:
    """Return the time that is so many seconds after the epoch. If a disk or a store says a time before the epoch or
    beyond all calendars, return the nearest possible one.
    """
    return EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LATEST))
