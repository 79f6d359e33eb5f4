"""Where the files of a table may be deleted: in its own folder, and in the folders that its options name. The folder of
another table below them is not among these.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from lakewarden.planners.formats.iceberg.deletion.orphan_files import is_named_by_a_writer, is_of_a_layout
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import address_of
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, Outside
from lakewarden.planners.formats.layouts import found_in
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.inside import Home, NoPlaceError

REMEDY = (
    "if those files are this table's alone, name their folder in its options (folders: [...]), and they are deleted, "
    "too; if they may be another table's, as after add_files, set outside: leave"
)
"""What an operator does about files outside the table's folder."""


_MOST_FOLDERS = 100_000


class Ground:
    """The folders of one table. Its metadata may name files anywhere: `write.data.path` moves them, `add_files` takes
    in files of other tables, and a copy names the files of the original. In the table's own folder a file of data must
    have the name that a writer of Iceberg gives: `add_files` may have taken in files of a directory that others read,
    or of a table of another format. Not for several threads.

    `storage` is asked for other tables in those folders below that are no folders of partitions.
    """

    def __init__(self, metadata: TableMetadata, options: IcebergTableOptions, storage: Storage) -> None:
        """Take the table's own folder and those that its options name. Raises PermanentError if one is no folder."""
        self._location = metadata.location
        self._leave = options.outside is Outside.LEAVE
        self._storage = storage
        self._folders: dict[str, bool] = {}
        try:
            self._homes = [Home(folder.rstrip("/"), by_key=True) for folder in (metadata.location, *options.folders)]
            self._named = self._homes[1:]
        except NoPlaceError as no_place:
            raise PermanentError(f"a folder of the table at {metadata.location} {no_place}") from no_place

    def __contains__(self, path: str) -> bool:
        if all(home.why_outside(path) is not None for home in self._homes):
            return False
        return not self._is_of_a_table_below(posixpath.dirname(path))

    def _is_own(self, file: DeletableFile) -> bool:
        if file.path not in self:
            return False
        is_named = file.kind is not FileKind.CONTENT or is_named_by_a_writer(file.path)
        return is_named or any(home.why_outside(file.path) is None for home in self._named)

    def _is_of_a_table_below(self, folder: str) -> bool:
        """Whether a folder, or one above it and below the table's folders, is that of another table."""
        if folder not in self._folders:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            is_below = any(home.why_outside(folder, whole_folder=True) is None for home in self._homes)
            self._folders[folder] = is_below and (
                self._is_of_a_table_below(posixpath.dirname(folder)) or self._has_a_table(folder)
            )
        return self._folders[folder]

    def _has_a_table(self, folder: str) -> bool:
        name = posixpath.basename(folder)
        return not is_of_a_layout(name) and bool(found_in(address_of(folder), self._storage))

    def own(self, files: Iterable[DeletableFile]) -> tuple[DeletableFile, ...]:
        """Return those of the files that may be deleted. Raises PermanentError if there are others, unless the options
        say that they stay.
        """
        own, outside = [], 0
        first = None
        for file in files:
            if self._is_own(file):
                own.append(file)
            else:
                outside, first = outside + 1, first or file
        if first is not None and not self._leave:
            raise PermanentError(
                f"{outside} files that the table needs no more lie outside its folder {self._location}, lie in "
                "another table below it, or have names that no writer of Iceberg gives, as after add_files, "
                f"{first.path} among them: {REMEDY}"
            )
        return tuple(own)

    def require(self, files: Iterable[DeletableFile], *, listed_by: str) -> None:
        """Raise PermanentError if a list names a file outside the folders. Lakewarden has not written such a list."""
        for file in files:
            if not self._is_own(file):
                raise PermanentError(
                    f"the list of {listed_by} names {file.path}, which is not a file of the table in "
                    f"{self._location}: nothing of it is deleted. Find out who wrote it; "
                    "delete the list, and the deletion is planned again"
                )
