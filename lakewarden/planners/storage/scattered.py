"""Files that may lie in any store: those of a table that is known by its name in a catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Storage
from lakewarden.planners.storage.locations import is_in_catalog


class ScatteredStorage:
    """Asks, for every single file and folder, the storage that holds it."""

    def __init__(self, storage_of: Callable[[str], Storage]) -> None:
        self._storage_of = storage_of

    def stamp(self, location: str) -> str:
        """Return what the folder's own storage returns."""
        return self._holder(location).stamp(location)

    def changed_at(self, location: str) -> datetime | None:
        """Return what the folder's own storage returns."""
        return self._holder(location).changed_at(location)

    def version(self, location: str) -> str:
        """Return what the file's own storage returns."""
        return self._holder(location).version(location)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return what the folder's own storage returns."""
        return self._holder(location).listing(location, most=most)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return what the file's own storage returns."""
        return self._holder(location).read(location, limit=limit)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return what the file's own storage returns."""
        return self._holder(location).read_part(location, begin=begin, size=size)

    def _holder(self, location: str) -> Storage:
        """Return the storage of a file. A name in a catalog is none: nothing lies there."""
        if is_in_catalog(location):
            raise FileNotFoundError(location)
        return self._storage_of(location)
