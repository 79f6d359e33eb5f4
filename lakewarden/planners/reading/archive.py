"""One page of the archive of a table, read in a reader process. It raises no error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import ArchivePage
from lakewarden.planners.ports import KeepsArchive, NoArchiveError, Storage, TableFormat
from lakewarden.planners.reading.observing import ReadFailure


class ArchiveRequest(NamedTuple):
    """A requested page: what was requested before a moment (None: the newest), and at least how many instants."""

    table: Table
    before: datetime | None
    limit: int


class ArchiveAnswer(NamedTuple):
    """A page, or a failure. `without`: the table has no archive that Lakewarden reads."""

    page: ArchivePage | None = None
    failure: ReadFailure | None = None
    without: bool = False


def read_archive(
    asked: ArchiveRequest, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage]
) -> ArchiveAnswer:
    """Read a page of the archive of a table."""
    try:
        table_format = formats.get(asked.table.format)
        if not isinstance(table_format, KeepsArchive):
            raise NoArchiveError(f"a {asked.table.format} table has no archived timeline")
        storage = storage_for(asked.table.location)
        return ArchiveAnswer(table_format.archived(asked.table, storage, before=asked.before, limit=asked.limit))
    except Exception as error:  # noqa: BLE001 - the failure of one table must not affect another
        return ArchiveAnswer(failure=ReadFailure.of(error), without=isinstance(error, NoArchiveError))
