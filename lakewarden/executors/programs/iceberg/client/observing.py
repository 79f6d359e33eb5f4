"""Observations of the table by the daemon's own reader. They show what its writers are doing during the run."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import structlog

from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, metadata_of
from lakewarden.planners.formats.iceberg.observing import observed
from lakewarden.planners.formats.iceberg.options.table_options import PLACES
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.locations import named_in_catalog
from lakewarden.planners.triggers import NumCommits


class RunObservations:
    """The observations of one run of its table. Each reads only what is new since the one before."""

    def __init__(self, table: OpenTable, options: Settings) -> None:
        assigned = table.assignment
        self._opened = table
        self._table = Table(
            id=assigned.table,
            format=assigned.format,
            location=assigned.location,
            options=table.options,
            policies={assigned.service: Policy(trigger=NumCommits(at_least=1), options=options)},
        )
        self._file = ""
        self._metadata: TableMetadata | None = None
        self._last: Observation | None = None

    def observe(self) -> TableView:
        """Return the table as it is now. `java` is at the same version. Raises TemporaryError if the table cannot be
        read whole.
        """
        self._file = self._opened.refreshed()
        pointer, now = Pointer(token="", metadata_file=self._file), self._opened.clock.now()
        self._last = observed(self._table, self._opened.storage, self._last, pointer=pointer, token="", now=now)
        if self._last.view.faults:
            raise TemporaryError(self._last.view.faults[0])
        return self._last.view

    def metadata(self) -> TableMetadata:
        """Return the metadata of the last observation."""
        table_metadata = self._metadata
        if table_metadata is None or table_metadata.file != self._file:
            told = None if table_metadata is None else table_metadata.told
            self._metadata = table_metadata = read_table(self._file, self._opened.storage, told=told)
        return table_metadata

    def files(self, keys: Collection[int]) -> Mapping[int, LiveFile]:
        """Return the files of the last observation with these keys."""
        return {file.key: file for digest in self._digests().values() for file in digest.named(keys)}

    def deletes(self) -> tuple[LiveFile, ...]:
        """Return the delete files of the last observation."""
        return tuple(file for digest in self._digests().values() if digest.of_deletes for file in digest.live())

    def data_files(self) -> int:
        """Return the number of data files in the last observation."""
        return sum(len(digest) for digest in self._digests().values() if not digest.of_deletes)

    def everything(self) -> Iterator[LiveFile]:
        """Yield all files of the last observation."""
        return (file for digest in self._digests().values() for file in digest.live())

    def manifests_with(self, keys: Collection[int]) -> frozenset[str]:
        """Return the paths of the manifests of the last observation that list one of these files."""
        return frozenset(path for path, digest in self._digests().items() if any(digest.named(keys)))

    def _digests(self) -> Mapping[str, ManifestDigest]:
        memo = None if self._last is None else self._last.memo
        digests = memo.digests if isinstance(memo, Memo) else {}
        return {path: digest for (path, _), digest in digests.items()}


# Other tables of the catalog that need files in a table's folder.

log = structlog.get_logger(__name__)

_Shown = TypeVar("_Shown")
_MOST = 1000
"""So many tables of a catalog are asked, first those in the namespace of the table."""

_KEPT = timedelta(hours=1)
"""So long, the uuid of a table is not asked again. It changes only if another table takes its name. One that would be a
copy is always asked."""


def neighbours(table: OpenTable, metadata: TableMetadata) -> Mapping[str, str]:
    """Return the folders below a table's folder that other tables of its catalog name as theirs, by the path from
    there, each with the name of its table. What the catalog refuses to show is left out. So is a table without a
    manifest list, as in a folder of a Hadoop catalog that was moved: no engine reads it or appends to it.

    Raises PermanentError if another table lies in the very folder of this one, or has lain there and still needs files
    of it. Raises TemporaryError if another table cannot be loaded, and YieldError if the table was renamed during
    the run.
    """
    spelled, folders = Spelling(), dict[str, str]()
    home = f"{spelled.folder(metadata.location)}/"
    for name, identifier in _others(table):
        for other in _listing(partial(_metadata, table, identifier), name):
            theirs = [f"{spelled.folder(place)}/" for place in _places(other)]
            if home in theirs and _is_lost(table, other):
                continue
            if home in theirs:
                if other.uuid == metadata.uuid:
                    _require_its_name(table, metadata, found_as=name)
                raise PermanentError(
                    f"the table {name} of the same catalog keeps its files in {metadata.location}, too: no file there "
                    "is an orphan of one table alone. Let each table have a folder of its own"
                )
            for path in map(spelled, _history(other)):
                if path.startswith(home) and not path.startswith(tuple(theirs)):
                    raise PermanentError(
                        f"the table {name} of the same catalog has lain in {metadata.location} before, and still needs "
                        f"files there ({path}): no file there is an orphan of one table alone. Rewrite all files of "
                        f"{name} and its manifests in its new folder, and expire its older snapshots. Its log forgets "
                        "the folder after write.metadata.previous-versions-max commits. Or give one of the two another "
                        "folder"
                    )
            below = (place for place in theirs if place.startswith(home))
            folders.update((place.removeprefix(home).rstrip("/"), f"files of the table {name}") for place in below)
    return folders


def require_no_copy(table: OpenTable, metadata: TableMetadata) -> None:
    """Raise PermanentError if another table of the catalog is a copy of this one: it has the same uuid, as after
    `register_table`. It may need the files that this one does not. What cannot be loaded is no copy. Raises
    YieldError if the table was renamed during the run.
    """
    for name, identifier in _others(table):
        at, uuid = table.uuids.get(name, (None, None))
        if at is None or not at <= table.clock.now() < at + _KEPT or uuid == metadata.uuid:
            uuid = _asked_uuid(table, name, identifier)
        if uuid == metadata.uuid:
            _require_its_name(table, metadata, found_as=name)
            raise PermanentError(
                f"the table {name} of the same catalog has the same table-uuid, as after register_table: it may need "
                "the files that this one does not, so none is deleted. Drop one of the two without its files, or make "
                "the copy anew with CREATE TABLE ... AS SELECT"
            )


def _require_its_name(table: OpenTable, metadata: TableMetadata, *, found_as: str) -> None:
    """Raise YieldError if the name that the run was given does not lead to its table any more: then the table was
    renamed during the run, and was found under its new name.
    """
    _, own = named_in_catalog(table.assignment.location)
    identifier = table.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(own)
    if metadata.uuid not in _listing(partial(_uuid, table, identifier)):
        raise YieldError(f"the table {own} was renamed to {found_as} during the run. Services go on under the new name")


def _asked_uuid(table: OpenTable, name: str, identifier: Any) -> str | None:
    uuid = None
    with contextlib.suppress(TemporaryError):
        uuid = next(iter(_listing(partial(_uuid, table, identifier))), None)
    table.uuids[name] = (table.clock.now(), uuid)
    return uuid


def _others(table: OpenTable) -> Iterator[tuple[str, Any]]:
    if table.catalog is None:
        return
    _, own = named_in_catalog(table.assignment.location)
    named = (
        (str(identifier.toString()), identifier) for identifier in itertools.islice(_identifiers(table, own), _MOST)
    )
    yield from ((name, identifier) for name, identifier in named if name != own)


def _identifiers(table: OpenTable, own: str) -> Iterator[Any]:
    named, catalog = table.jvm.org.apache.iceberg.catalog, table.catalog
    first = named.TableIdentifier.parse(own).namespace()
    yield from _listing(partial(catalog.listTables, first))
    for other in _listing(partial(catalog.listNamespaces, named.Namespace.empty())):
        if not other.equals(first):
            yield from _listing(partial(catalog.listTables, other))


def _metadata(table: OpenTable, identifier: Any) -> Iterable[TableMetadata]:
    current = table.catalog.loadTable(identifier).operations().current()
    text = str(table.jvm.org.apache.iceberg.TableMetadataParser.toJson(current)).encode()
    return [metadata_of(lambda: [text], file=str(current.metadataFileLocation()))]


def _uuid(table: OpenTable, identifier: Any) -> Iterable[str]:
    return [str(table.catalog.loadTable(identifier).uuid().toString())]


def _is_lost(table: OpenTable, other: TableMetadata) -> bool:
    """Whether another table has snapshots, and the manifest list of none of them exists."""
    lists = [snapshot.manifest_list for snapshot in reversed(other.snapshots)]
    files = table.java.io()
    with translated(Step.PLAN):
        return bool(lists) and not any(path is None or files.newInputFile(path).exists() for path in lists)


def _places(other: TableMetadata) -> Iterable[str]:
    return (place for place in (other.location, *map(other.properties.get, PLACES)) if place is not None)


def _history(other: TableMetadata) -> Iterator[str]:
    yield from other.metadata_log
    yield from (snapshot.manifest_list for snapshot in other.snapshots if snapshot.manifest_list is not None)


def _listing(ask: Callable[[], Iterable[_Shown]], needed: str | None = None) -> Sequence[_Shown]:
    """Return what the catalog shows. Nothing if it refuses, as without the right to list. If another error concerns a
    `needed` table, raise TemporaryError. Raises it also if a listing fails.
    """
    try:
        with translated(Step.PLAN):
            return [*ask()]
    except PermanentError as error:
        log.info("catalog_does_not_show", error=str(error))
        return []
    except TemporaryError as error:
        if needed is None:
            raise
        raise TemporaryError(
            f"the table {needed} of the same catalog cannot be loaded, and may need files in this table's folder: "
            f"{error}. Fix it, or drop it from the catalog without its files",
            delay=error.delay,
        ) from error
