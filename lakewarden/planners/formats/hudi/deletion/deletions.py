"""Deletions of partitions on the timeline, and which of them the table's catalog has been told of.

What was told stands in a file of our own beside the table: a daemon that was killed, or has lost its store, knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from lakewarden.planners.formats.hudi.metadata.commits import written
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, read_pieces
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Hindrance
from lakewarden.planners.ports import Storage

MARK = ".lakewarden/catalog_synced"
"""Names, below HOME, a place in a catalog, and then line by line the deletions that it was told of."""

_OPERATION = "DELETE_PARTITION"
"""`WriteOperationType` of a `replacecommit` that deletes partitions, ours and everybody else's."""
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
            pieces = read_pieces(storage, f"{properties.timeline_folder}/{name}", size=one.completed.size)
            wrote = written.of(pieces)
        except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{name} cannot be read: {error}") from error
        if wrote.operation == _OPERATION:
            found[one.time] = frozenset(wrote.partitions)
    return found


def told(location: str, options: CatalogSyncOptions, storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's place in its catalog was told of. Raises TemporaryError if the
    storage does not say.
    """
    try:
        place, *times = storage.read(f"{location}/{HOME}/{MARK}", limit=_LARGEST).decode(errors="replace").splitlines()
    except (FileNotFoundError, PermanentError, ValueError):  # none, larger than anything of ours, or empty
        return frozenset()
    return frozenset(times) if place == place_in(options) else frozenset()


def noted(options: CatalogSyncOptions, times: Collection[str]) -> str:
    """Return the mark that says what was told."""
    return "\n".join((place_in(options), *sorted(times), ""))


def place_in(options: CatalogSyncOptions) -> str:
    """Return what the table is called where, for people and for the mark."""
    return f"{options.database}.{options.table} at {options.uri}"


def untold(table: Table, known: Sequence[Known], storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's catalog was not told of, if it is to be; raises as `told`."""
    policy = table.policies.get(Service.CATALOG_SYNC)
    if policy is None or not isinstance(policy.options, CatalogSyncOptions):
        return frozenset()
    found = deletions(known)
    return found - told(table.location, policy.options, storage) if found else found


def hindrances(untold: Collection[str]) -> tuple[Hindrance, ...]:
    """Return what has to wait until the catalog was told of a deletion: an archived one nobody would tell it of."""
    if not untold:
        return ()
    return (
        Hindrance(
            services=frozenset({Service.ARCHIVE}),
            reason=f"the catalog still lists partitions that {min(untold)} deleted: it goes before an archive",
            remedy="see what keeps catalog_sync from telling it, or remove the table's catalog_sync policy",
        ),
    )


def notes(table: Table, untold: Collection[str]) -> Mapping[Service, tuple[str, ...]]:
    """Return what a person should know of deletions that the catalog was not told of."""
    policy = table.policies.get(Service.CATALOG_SYNC)
    if not untold or policy is None or not isinstance(policy.options, CatalogSyncOptions):
        return {}
    many = f"and {len(untold) - 1} more " if len(untold) > 1 else ""
    note = f"{place_in(policy.options)} may still list partitions that {min(untold)} {many}deleted"
    return {Service.CATALOG_SYNC: (note,)}
