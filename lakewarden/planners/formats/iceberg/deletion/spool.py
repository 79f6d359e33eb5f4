"""Files that are too many for memory. They lie on the worker's own disk, in the order in which they were added."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import IO, NamedTuple

from lakewarden.planners.model.errors import TemporaryError

_HEAD = struct.Struct("<qI")
_AT_ONCE = 2**16
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


class SpooledFile(NamedTuple):
    """A file: its path, and the time of its last write."""

    path: str
    written_at: datetime


class Spool:
    """Files on disk, compressed to about 20 bytes each. All are added before the first is read. The disk space is freed
    with the object. Raises TemporaryError if the disk is full. Not for several threads.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._blocks: list[int] = []
        self._gathered = bytearray()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, path: str, written_at: datetime) -> None:
        """Add a file."""
        name = path.encode(errors="surrogatepass")
        self._gathered += _HEAD.pack((written_at - _EPOCH) // _MICROSECOND, len(name))
        self._gathered += name
        self._length += 1
        if len(self._gathered) >= _AT_ONCE:
            self._write()

    def __iter__(self) -> Iterator[SpooledFile]:
        """Yield the files, beginning with the first."""
        self._write()
        begin = 0
        for size in tuple(self._blocks):
            yield from _records(self._read(begin, size))
            begin += size

    def _write(self) -> None:
        if not self._gathered:
            return
        block = zlib.compress(self._gathered, 1)
        with _told():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="lakewarden-", buffering=0)  # noqa: SIM115 - it lives on
            self._file.seek(0, os.SEEK_END)
            if self._file.write(block) != len(block):
                raise OSError("the disk is full")
        self._blocks.append(len(block))
        self._gathered.clear()

    def _read(self, begin: int, size: int) -> bytes:
        with _told():
            return zlib.decompress(os.pread(self._file.fileno(), size, begin) if self._file else b"")


def _records(block: bytes) -> Iterator[SpooledFile]:
    place = 0
    while place < len(block):
        at, size = _HEAD.unpack_from(block, place)
        place += _HEAD.size
        yield SpooledFile(block[place : place + size].decode(errors="surrogatepass"), _EPOCH + at * _MICROSECOND)
        place += size


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Translate errors of the disk into TemporaryError."""
    try:
        yield
    except (OSError, zlib.error) as error:
        raise TemporaryError(f"the worker's folder of temporary files cannot be used: {error}") from error
