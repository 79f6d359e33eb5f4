"""Which storage holds a location: composed once in every process."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from typing import Any

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import ConditionalWrites, Storage
from lakewarden.planners.storage.conditions import LocalConditions, S3Conditions
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.storage.remote import FsspecStorage
from lakewarden.planners.storage.scattered import ScatteredStorage
from lakewarden.planners.storage.settings import StoreSettings, setting_of

_EXTRAS = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs"), "abfss": ("adlfs", "azure")}


class Storages:
    """Every storage that a process reads from, each opened when it is first asked. For any thread."""

    def __init__(self, stores: Sequence[StoreSettings] = ()) -> None:
        self._stores = stores
        self._local = LocalStorage()
        self._scattered = ScatteredStorage(self.of)
        self._remote: dict[str, FsspecStorage] = {}
        self._conditions: dict[int, S3Conditions] = {}
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
                self._remote[store.prefix] = FsspecStorage(lambda: _driver(scheme, store), timeout=store.timeout)
            return self._remote[store.prefix]

    def conditions(self, location: str) -> ConditionalWrites | None:
        """Return who writes below a canonical location on conditions; None where we know no way for its store to."""
        storage = self.of(location)
        if isinstance(storage, LocalStorage):
            return LocalConditions()
        if location.startswith("s3://") and isinstance(storage, FsspecStorage):
            with self._opening:
                return self._conditions.setdefault(id(storage), S3Conditions(storage))
        return None


def _driver(scheme: str, store: StoreSettings) -> Any:
    """Open fsspec's driver of a scheme. Raises PermanentError where it is not installed, or a secret is missing."""
    import fsspec  # noqa: PLC0415 - a process of local tables needs none of it

    package, extra = _EXTRAS.get(scheme, (None, None))
    if package is not None and importlib.util.find_spec(package) is None:
        raise PermanentError(f"{scheme}:// locations need the driver {package}: install lakewarden[{extra}]")
    options = _merged(store.driver_options(), store.options)
    try:
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **options)
    except (ImportError, ValueError, TypeError) as error:
        raise PermanentError(f"the driver for {scheme}:// locations cannot be used: {error}") from error


def _merged(ours: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return our options with those that were given over them, and groups of options merged."""
    groups = {key: {**ours[key], **value} for key, value in given.items() if isinstance(ours.get(key), dict)}
    return {**ours, **given, **groups}
