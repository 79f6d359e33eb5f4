"""Files that may be orphans. Memory holds one digest for each, because a table may have hundreds of millions of
files.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b

from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind, Sparing
from lakewarden.planners.formats.iceberg.deletion.spool import Spool
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling, address_of, path_alone


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
    found = blake2b(path.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found, "little") or 1


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
        found = Spool()
        for file in self._files:
            if self.may_go(file.path):
                found.add(*file)
        return found

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
