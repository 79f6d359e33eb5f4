"""Which storage holds a location: composed once in every process."""

from __future__ import annotations

from typing import Any

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.remote import FsspecStorage


class Storages:
    """Every storage that a process reads from."""

    def __init__(self) -> None:
        self._local = LocalStorage()
        self._remote: dict[str, FsspecStorage] = {}

    def of(self, location: str) -> Storage:
        """Return the storage that holds a canonical location. What is wrong with it is raised by asking it."""
        scheme, separator, _ = location.partition("://")
        if not separator:
            return self._local
        return self._remote.setdefault(scheme, FsspecStorage(lambda: _driver(scheme)))


def _driver(scheme: str) -> Any:
    import fsspec  # noqa: PLC0415 - a process of local tables needs none of it

    try:
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True)
    except (ImportError, ValueError) as error:
        raise PermanentError(f"no driver for {scheme}:// locations is installed: {error}") from error
