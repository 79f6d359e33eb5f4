"""Files that may be orphans. Memory holds one digest for each, because a table may have hundreds of millions of
files.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import zlib
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import IO, NamedTuple

from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind, Sparing
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of, path_alone
from lakewarden.planners.model.errors import TemporaryError

# Files that are too many for memory. They lie on the worker's own disk, in the order in which they were added.

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
        with _translated():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="lakewarden-", buffering=0)  # noqa: SIM115 - it lives on
            self._file.seek(0, os.SEEK_END)
            if self._file.write(block) != len(block):
                raise OSError("the disk is full")
        self._blocks.append(len(block))
        self._gathered.clear()

    def _read(self, begin: int, size: int) -> bytes:
        with _translated():
            return zlib.decompress(os.pread(self._file.fileno(), size, begin) if self._file else b"")


def _records(block: bytes) -> Iterator[SpooledFile]:
    place = 0
    while place < len(block):
        at, size = _HEAD.unpack_from(block, place)
        place += _HEAD.size
        yield SpooledFile(block[place : place + size].decode(errors="surrogatepass"), _EPOCH + at * _MICROSECOND)
        place += size


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of the disk into TemporaryError."""
    try:
        yield
    except (OSError, zlib.error) as error:
        raise TemporaryError(f"the worker's folder of temporary files cannot be used: {error}") from error


class Digests:
    """A set of at most `most` paths, held as digests of about 16 bytes in a hash table with open addressing. Two paths
    with the same digest count as one. If one is spared, both are.
    """

    def __init__(self, most: int) -> None:
        size = 1 << max(4, (most * 3 // 2).bit_length())
        self._mask = size - 1
        self._slots = array("Q", bytes(8)) * size
        self._struck = bytearray(size)
        self._left = 0

    def __len__(self) -> int:
        """Return how many paths are left."""
        return self._left

    def __contains__(self, path: str) -> bool:
        digest = _digest(path)
        at = self._at(digest)
        return self._slots[at] == digest and not self._struck[at]

    def add(self, path: str) -> None:
        """Add a path."""
        digest = _digest(path)
        at = self._at(digest)
        if self._slots[at] != digest:
            if self._left > self._mask * 3 // 4:
                raise ValueError("there are more paths than was said")
            self._slots[at] = digest
            self._left += 1

    def strike(self, path: str) -> bool:
        """Remove a path. Return whether it was there."""
        digest = _digest(path)
        at = self._at(digest)
        if self._slots[at] != digest or self._struck[at]:
            return False
        self._struck[at] = 1
        self._left -= 1
        return True

    def _at(self, digest: int) -> int:
        """Return the slot of the digest, or the free slot for it."""
        slots, mask = self._slots, self._mask
        at = digest & mask
        while slots[at] and slots[at] != digest:
            at = (at + 1) & mask
        return at


def _digest(path: str) -> int:
    digest = blake2b(path.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


class TableFolder:
    """A table's folder: its `location` as its writers spell it, and the `address` at which its `store` lists it."""

    def __init__(self, location: str) -> None:
        self._spelling = Spelling()
        self.location = location
        self.address = address_of(location)
        spelled = self._spelling.folder(location)
        self.store = spelled.removesuffix(path_alone(spelled))
        self._way = path_alone(spelled)

    def known(self, path: str) -> str:
        """Return a path in the spelling that `path` returns."""
        return path_alone(self._spelling(path))

    def path(self, file: str) -> str:
        """Return the path of a file below the folder, without scheme and host. Candidates are compared by this
        spelling.
        """
        return f"{self._way}/{file}"


class Candidates(Sparing):
    """Files below a table's folder that may be deleted, unless the table needs them. They are those of `files` that
    were written `before`, by their paths from the folder.

    `mistaken` is the first file that the metadata knows by the same path under another scheme or host, and the address
    by which it is known. Such a file is spared, too.
    """

    def __init__(self, files: Spool, folder: TableFolder, *, before: datetime) -> None:
        super().__init__()
        self._files = files
        self._folder = folder
        self._spelling = Spelling()
        self._digests = Digests(len(files))
        self.mistaken: tuple[str, str] | None = None
        for path, written_at in files:
            if written_at < before:
                self._digests.add(folder.path(path))

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, path: str) -> bool:
        return path_alone(self._spelling(path)) in self._digests

    def may_go(self, file: str) -> bool:
        """Whether a file is still a candidate. It is given by its path from the folder."""
        return self._folder.path(file) in self._digests

    def unknown(self) -> Spool:
        """Return the candidates that are left, with the times at which they were written."""
        spool = Spool()
        for file in self._files:
            if self.may_go(file.path):
                spool.add(*file)
        return spool

    def files(self) -> Iterator[DeletableFile]:
        """Yield the candidates that are left, folder by folder."""
        for path, _ in self._files:
            if self.may_go(path):
                yield DeletableFile(FileKind.ORPHAN, f"{self._folder.location}/{path}")

    def spare(self, path: str) -> None:
        """Remove a file from the candidates, because the table needs it."""
        spelled = self._spelling(path)
        alone = path_alone(spelled)
        if self._digests.strike(alone) and self.mistaken is None and spelled != f"{self._folder.store}{alone}":
            self.mistaken = (f"{self._folder.store}{alone}", path)

    def _hopes_in_manifests(self) -> bool:
        return len(self) > 0
