"""Which storage holds a location. Every process creates one such object."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakewarden.planners.model.errors import PermanentError, installing
from lakewarden.planners.ports import ConditionalWrites, Storage
from lakewarden.planners.storage.conditions import LocalConditions, ObjectConditions
from lakewarden.planners.storage.inside import ScatteredStorage
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.locations import is_in_catalog, is_local, outside
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.remote import FsspecStorage
from lakewarden.planners.storage.settings import ObjectStoreSettings, StoreSettings, setting_of

# The clients of object stores. They are obstore's, opened by the settings.

_NEEDED = ("obstore", "arro3.core")
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfss": "azure"}


def open_client(store: ObjectStoreSettings, host: str, *, keys: Callable[[], Mapping[str, Any]] | None = None) -> Any:
    """Return the client of one bucket. It makes no request yet. `keys` returns credentials that are in no settings, in
    obstore's words.

    Raises PermanentError if obstore is not installed, a secret is missing, or obstore does not accept the settings.
    """
    kind = _kind(store)
    arguments = merged(store.client_arguments(host), store.options)
    if keys is not None:
        arguments["credential_provider"] = keys
    try:
        return kind(**arguments)
    except Exception as error:
        message = f"{error}".partition("\n\n")[0]
        raise PermanentError(f"the settings of {store.prefix} cannot be used: {message}") from error


def merged(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Lakewarden's options, overridden by the options of the settings. Groups of options are merged."""
    groups = {key: {**ours[key], **value} for key, value in given.items() if isinstance(ours.get(key), dict)}
    return {**ours, **given, **groups}


def _kind(settings: ObjectStoreSettings) -> Any:
    package = next(
        (package for package in _NEEDED if importlib.util.find_spec(package.partition(".")[0]) is None), None
    )
    if package is not None:
        raise PermanentError(f"{settings.scheme}:// locations need {package}: {installing(_EXTRAS[settings.scheme])}")
    from obstore import store  # noqa: PLC0415 - a process with local tables only does not need it

    return getattr(store, settings.client)


class Storages:
    """Every storage that a process reads from. Each is opened at its first request. Any thread may use it."""

    def __init__(self, stores: Sequence[StoreSettings] = (), *, roots: Sequence[str] = ()) -> None:
        """`roots` are the canonical locations below which tables and their files may lie. Without them it is all."""
        self._stores = stores
        self._roots = roots
        self._local = LocalStorage()
        self._scattered = ScatteredStorage(self.of, self.conditions)
        self._remote: dict[str, ObjectStorage | FsspecStorage] = {}
        self._conditions: dict[int, ObjectConditions] = {}
        self._opening = threading.Lock()

    def of(self, location: str) -> Storage:
        """Return the storage that holds a canonical location. Errors are raised by its requests.

        The files of a table in a catalog may lie anywhere. Their own canonical locations decide which storage is asked.
        Raises PermanentError if the location lies outside of the roots, before anything is read there.
        """
        self.require(location)
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

    def require(self, location: str) -> None:
        """Raise PermanentError if a location lies outside of the roots. Links of a local path are followed."""
        if not self._roots:
            return
        wrong = outside(os.path.realpath(location) if is_local(location) else location, self._roots)
        if wrong is not None:
            raise PermanentError(wrong)

    def conditions(self, location: str) -> ConditionalWrites | None:
        """Return the conditional writes below a canonical location. None if Lakewarden has none for its store."""
        storage = self.of(location)
        if isinstance(storage, LocalStorage):
            return LocalConditions()
        if location.startswith("s3://") and isinstance(storage, ObjectStorage):
            with self._opening:
                return self._conditions.setdefault(id(storage), ObjectConditions(storage))
        return None


def _opened(scheme: str, store: StoreSettings) -> ObjectStorage | FsspecStorage:
    """Return the storage of a scheme. It opens its client at its first request."""
    if isinstance(store, ObjectStoreSettings):
        return ObjectStorage(lambda host: open_client(store, host), timeout=store.timeout)
    return FsspecStorage(lambda: _driver(scheme, store), timeout=store.timeout)


def _driver(scheme: str, store: StoreSettings) -> Any:
    """Open fsspec's driver for a scheme. Raises PermanentError if there is none."""
    import fsspec  # noqa: PLC0415 - a process with local tables only does not need it

    try:
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **store.options)
    except (ImportError, ValueError, TypeError) as error:
        raise PermanentError(f"the driver for {scheme}:// locations cannot be used: {error}") from error
