"""Deletions of partitions on the timeline, and which of them the table's catalog knows.

A file beside the table says which deletions the catalog was told. So this is known even if a daemon was killed, or has
lost its store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from lakewarden.planners.formats.hudi.metadata.commits import written
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, read_chunks
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions, catalog_sync_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

MARK = ".lakewarden/catalog_synced"
"""The file below HOME. It names a place in a catalog, and then line by line the deletions that the catalog knows."""

_OPERATION = "DELETE_PARTITION"
"""`WriteOperationType` of a `replacecommit` that deletes partitions. Its author may be Lakewarden or a writer."""
_LARGEST = 2**20


def deletions(known: Iterable[Known]) -> frozenset[str]:
    """Return the times of the completed deletions of partitions on a timeline. Pure."""
    return frozenset(one.files.time for one in known if one.written is not None and one.written.operation == _OPERATION)


def read_deletions(
    instants: Iterable[InstantFiles], properties: TableProperties, storage: Storage
) -> Mapping[str, frozenset[str]]:
    """Return the partitions of each completed deletion of a timeline, by its time. Raises TemporaryError if one cannot
    be read.
    """
    found = {}
    for one in instants:
        if one.action is not Action.REPLACECOMMIT or one.completed is None:
            continue
        name = one.completed.name
        try:
            chunks = read_chunks(storage, f"{properties.timeline_folder}/{name}", size=one.completed.size)
            wrote = written.of(chunks)
        except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{name} cannot be read: {error}") from error
        if wrote.operation == _OPERATION:
            found[one.time] = frozenset(wrote.partitions)
    return found


def told(location: str, options: CatalogSyncOptions, storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's catalog knows at this place. Raises TemporaryError if the
    storage does not answer.
    """
    try:
        place, *times = storage.read(f"{location}/{HOME}/{MARK}", limit=_LARGEST).decode(errors="replace").splitlines()
    # there is none, Lakewarden has not written it, or it is empty
    except (FileNotFoundError, PermanentError, ValueError):
        return frozenset()
    return frozenset(times) if place == place_in(options) else frozenset()


def noted(options: CatalogSyncOptions, times: Collection[str]) -> str:
    """Return the content of the mark."""
    return "\n".join((place_in(options), *sorted(times), ""))


def place_in(options: CatalogSyncOptions) -> str:
    """Return the table's name in its catalog, and the catalog's address, for people and for the mark."""
    return f"{options.database}.{options.table} at {options.uri}"


def untold(table: Table, known: Sequence[Known], storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's catalog does not know and should know. Raises what `told`
    raises.
    """
    options = catalog_sync_of(table)
    if options is None:
        return frozenset()
    found = deletions(known)
    return found - told(table.location, options, storage) if found else found


def blockers(untold: Collection[str]) -> tuple[Blocker, ...]:
    """Return what is blocked until the catalog knows a deletion. It could not learn of an archived one."""
    if not untold:
        return ()
    return (
        Blocker(
            services=frozenset({Service.ARCHIVE}),
            code="other_plan_first",
            reason=f"the catalog still lists partitions that {min(untold)} deleted: it is told before an archive",
            remedy="find out why catalog_sync does not tell it, or remove the table's catalog_sync policy",
        ),
    )


def notes(table: Table, untold: Collection[str]) -> Mapping[Service, tuple[str, ...]]:
    """Return what an operator should know of deletions that the catalog does not know."""
    options = catalog_sync_of(table)
    if not untold or options is None:
        return {}
    many = f"and {len(untold) - 1} more " if len(untold) > 1 else ""
    note = f"{place_in(options)} may still list partitions that {min(untold)} {many}deleted"
    return {Service.CATALOG_SYNC: (note,)}
