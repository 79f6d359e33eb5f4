"""Another look at single folders, right before something is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.walk import Kinds, Walk, above, changed_of, location_of
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import Storage

_FRESH = timedelta(seconds=1)
"""In a store without folder times a folder above many partitions is not listed again for each of them."""


class FreshListings:
    """Lists a partition anew each time. A folder above it is listed anew if its time has moved, or is not known."""

    def __init__(self, location: str, storage: Storage, kinds: Kinds, clock: Clock, *, small_below: int = 0) -> None:
        self._walk = Walk(location=location, storage=storage, kinds=kinds, small_below=small_below)
        self._storage = storage
        self._clock = clock
        self._looked_at: dict[str, float] = {}

    def folder(self, path: str) -> Folder:
        """Return a folder as it is now. Raises FileNotFoundError where it is gone."""
        self._walk.look_at(path)
        return self._walk.folders[path]

    def above(self, path: str) -> Iterator[Folder]:
        """Yield the folders above one, as they are now."""
        return map(self._known, above(path))

    def _known(self, path: str) -> Folder:
        known, now = self._walk.folders.get(path), self._clock.monotonic()
        changed = changed_of(location_of(self._walk.location, path), self._storage)
        if known is not None and known.changed:
            fresh = changed == known.changed
        else:
            fresh = known is not None and now - self._looked_at[path] < _FRESH.total_seconds()
        if known is not None and fresh:
            return known
        self._looked_at[path] = now
        return self.folder(path)
