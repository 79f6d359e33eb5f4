"""One page of the archived timeline. Only the files that it needs are read, the newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from lakewarden.planners.formats.hudi.deletion.foreign import named_folders
from lakewarden.planners.formats.hudi.deletion.readers import in_folder
from lakewarden.planners.formats.hudi.history import (
    Archived,
    HistoryFile,
    history_files,
    history_folder,
    read_history,
)
from lakewarden.planners.formats.hudi.metadata.names import Layout, collapse
from lakewarden.planners.formats.hudi.metadata.properties import HOME, read_table_properties
from lakewarden.planners.formats.hudi.metadata.timeline import to_utc
from lakewarden.planners.formats.hudi.metadata.zone import find_zone, witnesses
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import ArchivePage, Instant, InstantKind, Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import NoArchiveError, Storage
from lakewarden.planners.storage.inside import Home

_MOST_FILES = 32
"""How many files one page reads at most."""

_OLD_ARCHIVE = ".commits_."
"""How the names of the files of an archive begin up to table version 6."""

_AGAIN = timedelta(seconds=1)
_TICK = timedelta(milliseconds=1)

_BY_ACTION: Mapping[str, Service | InstantKind] = {
    "commit": InstantKind.WRITE,
    "deltacommit": InstantKind.WRITE,
    "replacecommit": InstantKind.WRITE,
    "clean": Service.CLEAN,
    "rollback": Service.ROLLBACK,
    "savepoint": InstantKind.SAVEPOINT,
    "restore": InstantKind.RESTORE,
    "indexing": Service.INDEXING,
}
_BY_OPERATION: Mapping[str, Service | InstantKind] = {
    "COMPACT": Service.COMPACTION,
    "LOG_COMPACT": Service.LOG_COMPACTION,
    "CLUSTER": Service.CLUSTERING,
}


def archived_page(
    table: Table, options: HudiTableOptions, storage: Storage, *, before: datetime | None, limit: int
) -> ArchivePage:
    """Return archived instants that were requested before a moment, the newest first.

    Instants of one moment stay together, so there may be more than `limit` of them. Raises NoArchiveError for an
    archive of a table version up to 6. Raises TemporaryError if a merge removes the files meanwhile, and PermanentError
    if the archive is damaged.
    """
    properties = read_table_properties(table.location, storage)
    if properties.layout is Layout.V1:
        if _nothing_archived(table.location, storage):
            return ArchivePage(instants=(), before=None)
        raise NoArchiveError(
            f"the archive of {table.id} has the form of Hudi's table version {properties.version}: Lakewarden reads "
            "that of versions 8 and 9"
        )
    listed = collapse(storage.listing(properties.timeline_folder), properties.layout)
    zone = find_zone(
        witnesses([instant for instant in listed if instant.state is State.COMPLETED], properties.layout),
        declared=options.timeline_timezone,
        stated=properties.zone,
        workers=table.zone,
    ).zone
    folder = history_folder(properties)
    try:
        pages = _Pages(folder, storage, zone, merge_on_read=properties.merge_on_read)
        return pages.page(before=before or datetime.max.replace(tzinfo=UTC), limit=limit)
    except FileNotFoundError as gone:
        raise TemporaryError(
            f"a file of the archive of {table.id} has just been merged: ask again", delay=_AGAIN
        ) from gone


def _nothing_archived(location: str, storage: Storage) -> bool:
    """Whether no instant of a table with the older layout was archived (`HoodieArchivedTimeline` of Hudi 0.x)."""
    home = f"{location}/{HOME}"
    folder = in_folder(home, named_folders(location, storage).get("hoodie.archivelog.folder") or "archived")
    if Home(location).why_outside(folder, whole_folder=True) is not None:
        return False
    try:
        return not any(entry.name.startswith(_OLD_ARCHIVE) for entry in storage.entries(folder))
    except FileNotFoundError:
        return True


class _Pages:
    """The archive of one table, as one manifest lists it."""

    def __init__(self, folder: str, storage: Storage, zone: tzinfo, *, merge_on_read: bool) -> None:
        self._folder = folder
        self._storage = storage
        self._zone = zone
        self._merge_on_read = merge_on_read

    def page(self, *, before: datetime, limit: int) -> ArchivePage:
        """Return the instants before a moment. The ranges of the files may overlap."""
        files = [file for file in history_files(self._folder, self._storage) if self._moment(file.first) < before]
        files.sort(key=lambda file: file.last, reverse=True)
        instants: dict[tuple[str, str], Instant] = {}
        for number, file in enumerate(files):
            sure = self._sure(instants, file)
            rest = self._moment(file.last) + _TICK
            if rest < before and (len(sure) > limit or number >= _MOST_FILES):
                return self._cut(sure, limit, rest=rest)
            for entry in read_history(self._folder, file, self._storage):
                if self._moment(entry.time) < before:
                    instants[entry.time, entry.action] = self._instant(entry)
        return self._cut(_sorted(instants), limit, rest=None)

    def _sure(self, instants: Mapping[tuple[str, str], Instant], file: HistoryFile) -> list[Instant]:
        """Return the instants that neither `file` nor an older one can precede."""
        last = self._moment(file.last)
        return [instant for instant in _sorted(instants) if instant.requested_at > last]

    def _cut(self, instants: list[Instant], limit: int, *, rest: datetime | None) -> ArchivePage:
        """Return a page. What was requested before `rest` is in files that were not read. None: all were."""
        page = instants[:limit]
        page += [instant for instant in instants[limit:] if instant.requested_at == page[-1].requested_at]
        if len(page) < len(instants):
            return ArchivePage(instants=tuple(page), before=page[-1].requested_at)
        return ArchivePage(instants=tuple(page), before=rest)

    def _moment(self, time: str) -> datetime:
        return to_utc(time, self._zone)

    def _instant(self, entry: Archived) -> Instant:
        return Instant(
            time=entry.time,
            action=entry.action,
            stands_for=self._stands_for(entry),
            state=State.COMPLETED,
            requested_at=self._moment(entry.time),
            completed_time=entry.completed_time,
            completed_at=None if entry.completed_time is None else self._moment(entry.completed_time),
        )

    def _stands_for(self, entry: Archived) -> Service | InstantKind:
        """Say what an instant stands for. On a merge-on-read table every completed `commit` is a compaction."""
        if entry.action == "commit" and self._merge_on_read:
            return Service.COMPACTION
        return _BY_OPERATION.get(entry.operation or "") or _BY_ACTION.get(entry.action, InstantKind.OTHER)


def _sorted(instants: Mapping[tuple[str, str], Instant]) -> list[Instant]:
    return sorted(
        instants.values(), key=lambda instant: (instant.requested_at, instant.time, instant.action), reverse=True
    )
