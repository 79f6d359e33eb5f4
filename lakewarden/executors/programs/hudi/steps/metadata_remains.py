"""Removing a metadata table so that its remains do no harm at any moment.

A client makes a metadata table in the existing folder, and continues the timeline that it finds there. A compaction
that seems to be pending there is executed at each write, and fails for the files that it names (run). So nothing is
left pending when the metadata table leaves the table's properties. Its timeline is deleted in an order in which no
instant ever seems pending: the completed file of each instant last.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.indexes.metadata_table import (
    archive_deletion_order,
    deletion_order,
    metadata_instants,
)
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties
from lakewarden.planners.model.instant import State
from lakewarden.planners.ports import FileEntry, Storage

_REWRITES = (Action.COMPACTION, Action.LOGCOMPACTION)


class Remains:
    """The metadata table's folder. All methods are to be called under the table's lock, with nothing in flight."""

    def __init__(self, client: HudiClient, storage: Storage) -> None:
        self._client = client
        self._storage = storage
        self._folder = f"{client.location}/{HOME}/metadata"
        self._timeline = f"{self._folder}/{HOME}/timeline"

    def undo_rewrites(self, properties: TableProperties) -> None:
        """Undo its own pending compactions: first the files that they have written, and last their plans."""
        for one in metadata_instants(self._timeline, properties, self._storage) or ():
            if one.action in _REWRITES and one.state is not State.COMPLETED:
                for partition in self._listing(self._folder):
                    if partition.is_folder and not partition.name.startswith("."):
                        self._delete_written(f"{self._folder}/{partition.name}", by=one.time)
                for file in (one.inflight, one.requested):
                    if file is not None:
                        self._delete(self._timeline, file.name)

    def delete(self) -> None:
        """Delete it. It has left the table's properties before."""
        for name in deletion_order(self._listing(self._timeline), Layout.V2):
            self._delete(self._timeline, name)
        for name in archive_deletion_order(self._listing(f"{self._timeline}/history")):
            self._delete(f"{self._timeline}/history", name)
        self._client.storage.deleteDirectory(self._client.path(self._folder))

    def _delete_written(self, folder: str, *, by: str) -> None:
        for file in self._listing(folder):
            if f"_{by}." in file.name:
                self._delete(folder, file.name)

    def _listing(self, folder: str) -> Sequence[FileEntry]:
        try:
            return self._storage.listing(folder)
        except FileNotFoundError:
            return ()

    def _delete(self, folder: str, name: str) -> None:
        self._client.storage.deleteFile(self._client.path(f"{folder}/{name}"))
