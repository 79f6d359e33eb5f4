"""Files that may lie in any store: those of a table that is known by its name in a catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

from lakewarden.planners.ports import MOST_ENTRIES, ConditionalWrites, FileEntry, Storage
from lakewarden.planners.storage.locations import is_in_catalog


class ScatteredStorage:
    """Asks the storage of each single file and folder."""

    def __init__(
        self,
        storage_of: Callable[[str], Storage],
        conditions_of: Callable[[str], ConditionalWrites | None] = lambda _: None,
    ) -> None:
        """`conditions_of` returns the conditional writes below a location, if its store has them."""
        self._storage_of = storage_of
        self.conditions = conditions_of

    def stamp(self, location: str) -> str:
        """Return what the folder's own storage returns."""
        return self.holder(location).stamp(location)

    def changed_at(self, location: str) -> datetime | None:
        """Return what the folder's own storage returns."""
        return self.holder(location).changed_at(location)

    def version(self, location: str) -> str:
        """Return what the file's own storage returns."""
        return self.holder(location).version(location)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return what the folder's own storage returns."""
        return self.holder(location).listing(location, most=most)

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield what the folder's own storage yields."""
        return self.holder(location).entries(location)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return what the folder's own storage returns."""
        return self.holder(location).present(location, names)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return what the file's own storage returns."""
        return self.holder(location).read(location, limit=limit)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return what the file's own storage returns."""
        return self.holder(location).read_part(location, begin=begin, size=size)

    def holder(self, location: str) -> Storage:
        """Return the storage of a file. A name in a catalog has none, because no file lies there.

        Raises PermanentError if the file lies outside of the roots. It reads nothing.
        """
        if is_in_catalog(location):
            raise FileNotFoundError(location)
        return self._storage_of(location)
