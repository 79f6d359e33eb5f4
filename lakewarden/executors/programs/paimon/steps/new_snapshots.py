"""The file of a snapshot appears whole, and in the place of no other: on a disk by a link, on S3 by a condition.

Source of the hint: `SnapshotManager.commitLatestHint` and `utils.HintFileUtils` of Paimon 1.3.1: the number of the
newest snapshot as text, in the file `LATEST`. A reader believes it if there is no snapshot of the next number.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Protocol

from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.storage.locations import is_local
from lakewarden.planners.storage.new_files import OpenFolder, open_folder

SNAPSHOTS = "snapshot"
"""The folder of the snapshots, below that of the table."""


def require_exclusive_creation(table: OpenTable) -> None:
    """Raise PermanentError if the store may replace a file by one that is created. A file of Lakewarden proves it."""
    location = table.table.location
    if is_local(location):
        return
    conditions = table.conditions()
    probe, content = f"{location}/{OURS}/conditions", uuid.uuid4().hex.encode()
    if conditions.create(probe, content) is None:
        known = conditions.versioned(probe)
        if known is None or conditions.replace(probe, content, version=known.version) is None:
            raise TemporaryError(f"{probe} is written by another run")


@contextlib.contextmanager
def folder_of_snapshots(table: OpenTable) -> Iterator[FolderOfSnapshots]:
    """Open the place of the table's snapshots. On a disk it stays that of this table, also if the table is renamed."""
    if not is_local(table.table.location):
        yield _InStore(table)
        return
    with open_folder(f"{table.table.location}/{SNAPSHOTS}") as folder:
        yield _OnDisk(folder)


class FolderOfSnapshots(Protocol):
    """The place of a table's snapshots."""

    def create(self, snapshot: Snapshot, content: bytes) -> bool:
        """Let a snapshot appear. Return False if there is one of its number.

        Raises PermanentError and TemporaryError if certainly nothing was written, and UnknownError.
        """
        ...

    def hint(self, snapshot: Snapshot) -> None:
        """Write Paimon's hint of the newest snapshot. It may be missing or stale. Raises TemporaryError."""
        ...


class _OnDisk:
    def __init__(self, folder: OpenFolder) -> None:
        self._folder = folder

    def create(self, snapshot: Snapshot, content: bytes) -> bool:
        return self._folder.create_whole(f"snapshot-{snapshot.id}", content)

    def hint(self, snapshot: Snapshot) -> None:
        self._folder.replace("LATEST", str(snapshot.id).encode())


class _InStore:
    def __init__(self, table: OpenTable) -> None:
        self._table = table

    def create(self, snapshot: Snapshot, content: bytes) -> bool:
        file = f"{self._table.table.location}/{SNAPSHOTS}/snapshot-{snapshot.id}"
        try:
            return self._table.conditions().create(file, content) is not None
        except TemporaryError as lost:
            raise UnknownError(str(lost)) from lost

    def hint(self, snapshot: Snapshot) -> None:
        self._table.java.snapshotManager().commitLatestHint(snapshot.id)
