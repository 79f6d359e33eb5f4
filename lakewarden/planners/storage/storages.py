"""Which storage holds a location: composed once in every process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import ConditionalWrites, Storage
from lakewarden.planners.storage.clients import open_client
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.storage.object_conditions import ObjectConditions
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.remote import FsspecStorage
from lakewarden.planners.storage.scattered import ScatteredStorage
from lakewarden.planners.storage.settings import ObjectStoreSettings, StoreSettings, setting_of


class Storages:
    """Every storage that a process reads from, each opened when it is first asked. For any thread."""

    def __init__(self, stores: Sequence[StoreSettings] = ()) -> None:
        self._stores = stores
        self._local = LocalStorage()
        self._scattered = ScatteredStorage(self.of)
        self._remote: dict[str, ObjectStorage | FsspecStorage] = {}
        self._conditions: dict[int, ObjectConditions] = {}
        self._opening = threading.Lock()

    def of(self, location: str) -> Storage:
        """Return the storage that holds a canonical location. What is wrong with it is raised by asking it.

        A table that is named by a catalog has its files anywhere: they are asked for by their own canonical locations.
        """
        if is_in_catalog(location):
            return self._scattered
        scheme, separator, _ = location.partition("://")
        if not separator:
            return self._local
        store = setting_of(location, self._stores) or StoreSettings(prefix=f"{scheme}://")
        with self._opening:
            if store.prefix not in self._remote:
                self._remote[store.prefix] = _opened(scheme, store)
            return self._remote[store.prefix]

    def conditions(self, location: str) -> ConditionalWrites | None:
        """Return who writes below a canonical location on conditions; None where we know no way for its store to."""
        storage = self.of(location)
        if isinstance(storage, LocalStorage):
            return LocalConditions()
        if location.startswith("s3://") and isinstance(storage, ObjectStorage):
            with self._opening:
                return self._conditions.setdefault(id(storage), ObjectConditions(storage))
        return None


def _opened(scheme: str, store: StoreSettings) -> ObjectStorage | FsspecStorage:
    """Return the storage of a scheme, which opens its client when it is asked."""
    if isinstance(store, ObjectStoreSettings):
        return ObjectStorage(lambda host: open_client(store, host), timeout=store.timeout)
    return FsspecStorage(lambda: _driver(scheme, store), timeout=store.timeout)


def _driver(scheme: str, store: StoreSettings) -> Any:
    """Open fsspec's driver of a scheme. Raises PermanentError where there is none."""
    import fsspec  # noqa: PLC0415 - a process of local tables needs none of it

    try:
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **store.options)
    except (ImportError, ValueError, TypeError) as error:
        raise PermanentError(f"the driver for {scheme}:// locations cannot be used: {error}") from error
