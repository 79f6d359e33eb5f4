"""The files of a table, on a disk or on S3: what deletes them asks here, and knows neither."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Protocol

from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.executors.programs.paimon.steps.disk import FilesOnDisk, Listed
from lakewarden.executors.programs.paimon.steps.in_store import FilesInStore
from lakewarden.executors.programs.paimon.steps.old_files import OldFile, OldFiles
from lakewarden.planners.formats.paimon.deletion.orphan_names import Naming
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import is_local
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.scattered import ScatteredStorage


class TableFiles(Protocol):
    """The files below one table's folder. Each act may be repeated. A failure raises OSError or a LakewardenError."""

    def require_own_folders(self) -> None:
        """Raise PermanentError if a folder of the table leads to files of another one."""
        ...

    def in_buckets(self, names: Collection[str]) -> Listed:
        """List the buckets for files with these names. A name that is there twice is not found."""
        ...

    def delete(self, files: Iterable[str]) -> int:
        """Delete files, in any order, and return how many."""
        ...

    def old(self, naming: Naming, *, before: datetime) -> OldFiles:
        """List what may be an orphan, and was written `before`."""
        ...

    def delete_unchanged(self, files: Iterable[OldFile]) -> tuple[OldFile, ...]:
        """Delete those files that are as they were listed, and return them."""
        ...

    def clock(self) -> datetime:
        """Return the current time of the disk or of the store, which gives files their times."""
        ...

    def write(self, file: str, content: bytes) -> None:
        """Write a file of Lakewarden in the place of the one before. A kill leaves one of the two whole."""
        ...

    def hint_of_oldest(self, number: int) -> None:
        """Write Paimon's hint of the oldest snapshot. It may be missing or stale."""
        ...


def table_files(table: OpenTable) -> TableFiles:
    """Return the files of a table. Raises PermanentError for a store in which nothing is deleted."""
    location, storage = table.table.location, table.storage
    if is_local(location):
        return FilesOnDisk(location, run=table.assignment.run)
    holder = storage.holder(location) if isinstance(storage, ScatteredStorage) else storage
    if not isinstance(holder, ObjectStorage):
        raise PermanentError(f"nothing is deleted in {location}: its store was not tried")
    return FilesInStore(location, holder)
