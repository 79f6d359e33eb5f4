"""Where the files of a table may be deleted: in its own folder, and in the folders that its options name."""

from __future__ import annotations

from collections.abc import Iterable

from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, Outside
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.inside import Home, NoPlaceError

REMEDY = (
    "if those files are this table's alone, name their folder in its options (folders: [...]), and they are deleted, "
    "too; if they may be another table's, as after add_files, set outside: leave"
)
"""What an operator does about files outside the table's folder."""


class Ground:
    """The folders of one table. Its metadata may name files anywhere: `write.data.path` moves them, `add_files` takes
    in files of other tables, and a copy names the files of the original. Not for several threads.
    """

    def __init__(self, metadata: TableMetadata, options: IcebergTableOptions) -> None:
        """Take the table's own folder and those that its options name. Raises PermanentError if one is no folder."""
        self._location = metadata.location
        self._leave = options.outside is Outside.LEAVE
        try:
            self._homes = [Home(one.rstrip("/"), by_key=True) for one in (metadata.location, *options.folders)]
        except NoPlaceError as no_place:
            raise PermanentError(f"a folder of the table at {metadata.location} {no_place}") from no_place

    def __contains__(self, path: str) -> bool:
        return any(home.why_outside(path) is None for home in self._homes)

    def own(self, files: Iterable[DeletableFile]) -> tuple[DeletableFile, ...]:
        """Return those of the files that may be deleted. Raises PermanentError if there are others, unless the options
        say that they stay.
        """
        own, outside = [], 0
        first = None
        for file in files:
            if file.path in self:
                own.append(file)
            else:
                outside, first = outside + 1, first or file
        if first is not None and not self._leave:
            raise PermanentError(
                f"{outside} files that the table needs no more lie outside its folder {self._location}, "
                f"{first.path} among them: {REMEDY}"
            )
        return tuple(own)

    def require(self, files: Iterable[DeletableFile], *, listed_by: str) -> None:
        """Raise PermanentError if a list names a file outside the folders. Lakewarden has not written such a list."""
        for file in files:
            if file.path not in self:
                raise PermanentError(
                    f"the list of {listed_by} names {file.path}, which lies outside the table's folder "
                    f"{self._location}: nothing of it is deleted. Find out who wrote it; delete the list, and the plan "
                    "is made anew"
                )
