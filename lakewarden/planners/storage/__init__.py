"""The only package that opens files and lists object stores."""

from __future__ import annotations

from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.locations import canonical_location, hadoop_location
from lakewarden.planners.storage.remote import FsspecStorage
from lakewarden.planners.storage.storages import Storages

__all__ = ["FsspecStorage", "LocalStorage", "Storages", "canonical_location", "hadoop_location", "storage_for"]


def storage_for(location: str) -> Storage:
    """Return the storage of a location without settings: a local one, or one that the environment configures."""
    return Storages().of(location)
