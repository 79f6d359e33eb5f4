"""What holds services back on an Iceberg table, and what a person does about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.deletion.ground import REMEDY
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, Outside
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Hindrance
from lakewarden.planners.storage.inside import NoPlaceError, Place, place_of
from lakewarden.planners.storage.locations import canonical_location

NEWEST_VERSION = 3
"""The newest format version whose metadata Lakewarden reads. (Iceberg 1.11.0 has the beginnings of a fourth.)"""

_UNKNOWN_TO_SPARK = frozenset({"time", "timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography"})
"""Types of columns that Iceberg 1.11.0 refuses to hand to Spark 3.5 (`TypeToSparkType`). Row lineage, default values,
deletion vectors and the type `unknown` go through a rewrite unharmed."""

_OF_A_HADOOP_TABLE = re.compile(r"(.+)/metadata/v\d+\.[a-z.]+")

_REWRITES = frozenset({Service.COMPACTION, Service.CLUSTERING})
_DELETING = frozenset({Service.CLEAN, Service.ORPHANS})

_OF_NESSIE = "nessie."

_ELSEWHERE = ("write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.metadata.path")


def is_encrypted(metadata: TableMetadata) -> bool:
    """Whether the table's manifests are encrypted, so that nobody without its keys can read them."""
    return "encryption.key-id" in metadata.properties


class FilesStay(NamedTuple):
    """Why no file of a table is deleted, and what a person does about it."""

    reason: str
    remedy: str


def why_files_stay(metadata: TableMetadata) -> FilesStay | None:
    """Return why others may need the table's files, by its own properties; None where nothing says so.

    Source: Iceberg 1.11, `TableProperties.GC_ENABLED`, `nessie.NessieUtil` (`nessie.commit.id`); Nessie's own server
    writes `nessie.catalog.*`.
    """
    if metadata.properties.get("gc.enabled", "true").lower() != "true":
        return FilesStay(
            "the table says gc.enabled=false: another table may need its files, and Iceberg deletes none",
            "remove its clean and orphans policies, or set gc.enabled=true if no other table has its files",
        )
    of_nessie = sorted(key for key in metadata.properties if key.lower().startswith(_OF_NESSIE))
    if of_nessie:
        return FilesStay(
            f"the table is one of Nessie's (it has the property {of_nessie[0]}): other branches and tags there may "
            "need the files and snapshots that this catalog does not know of",
            "remove its clean and orphans policies, and let Nessie's own GC tool delete; if Nessie does not have the "
            f"table any more, unset {', '.join(of_nessie)}",
        )
    return None


def hindrances(metadata: TableMetadata, options: IcebergTableOptions) -> Iterator[Hindrance]:
    """Yield what holds services back, the gravest first."""
    if metadata.format_version > NEWEST_VERSION:
        yield Hindrance(
            reason=f"format version {metadata.format_version} is unknown to Lakewarden",
            remedy=f"it knows versions 1 to {NEWEST_VERSION}: upgrade Lakewarden",
        )
    if is_encrypted(metadata):
        yield Hindrance(
            reason="the table is encrypted (encryption.key-id): Lakewarden has no keys to read its manifests with",
            remedy="remove it from the configuration, and let an engine that has the keys maintain it",
        )
    folder = _folder_of_hadoop_table(metadata.file)
    if folder is not None and folder != canonical_location(metadata.location or "/"):
        yield Hindrance(
            reason=f"the table in {folder} says that it lies in {metadata.location}: it was moved, or is the copy of "
            "another table, whose files it names",
            remedy="register it where it says that it lies; make a copy with Iceberg's rewrite_table_path",
        )
    foreign = sorted(metadata.types & _UNKNOWN_TO_SPARK)
    if foreign:
        yield Hindrance(
            services=_REWRITES,
            reason=f"the table has columns of type {', '.join(foreign)}, which Iceberg cannot hand to Spark 3.5",
            remedy="remove its compaction and clustering policies: its other services are not concerned",
        )
    yield from _of_deletions(metadata)
    elsewhere = [] if options.outside is Outside.LEAVE else _elsewhere(metadata, options)
    if elsewhere:
        yield Hindrance(
            services=frozenset({Service.CLEAN}),
            reason=f"{elsewhere[0]} is {metadata.properties[elsewhere[0]]}, outside the table's folder "
            f"{metadata.location}: what lies there may belong to others, and is not deleted",
            remedy=REMEDY,
        )


def _of_deletions(metadata: TableMetadata) -> Iterator[Hindrance]:
    """Yield what forbids that anything is deleted."""
    if (why := why_files_stay(metadata)) is not None:
        yield Hindrance(services=_DELETING, reason=why.reason, remedy=why.remedy)
    inline = [one.id for one in metadata.snapshots if one.manifest_list is None]
    if inline:
        yield Hindrance(
            services=_DELETING,
            reason=f"snapshot {inline[0]} has no manifest list, as the first releases of Iceberg wrote it: which "
            "files it needs is not known",
            remedy="expire it by hand (CALL system.expire_snapshots with snapshot_ids)",
        )
    if _is_a_root(metadata.location):
        yield Hindrance(
            services=frozenset({Service.ORPHANS}),
            reason=f"the table's location {metadata.location} is no folder of its own: what lies there may belong to "
            "others",
            remedy="remove its orphans policy",
        )


def _folder_of_hadoop_table(metadata_file: str) -> str | None:
    """Return the folder of a table that has no catalog but its folder; None for the metadata file of a catalog's table,
    which may lie anywhere.
    """
    found = _OF_A_HADOOP_TABLE.fullmatch(canonical_location(metadata_file))
    return None if found is None else found[1]


def _is_a_root(location: str) -> bool:
    """Whether a location is a whole bucket or file system."""
    scheme, _, rest = location.rpartition("://")
    return not (rest.partition("/")[2] if scheme else rest.removeprefix("file:")).strip("/")


def warnings(metadata: TableMetadata) -> tuple[str, ...]:
    """Return what a person should know of the table although nothing is held back by it.

    Source: Iceberg 1.11, `spark.actions.MigrateTableSparkAction` (`migrated`, and the backup of the table as it was).
    """
    elsewhere = tuple(
        f"{key} is {metadata.properties[key]}, outside the table's folder: orphans looks for none there"
        for key in _elsewhere(metadata, IcebergTableOptions())
    )
    if metadata.properties.get("migrated", "").lower() != "true":
        return elsewhere
    return (
        *elsewhere,
        "the table was migrated where it lies (migrated=true): its backup (..._BACKUP_) names the same files, of which "
        "clean deletes those that are rewritten, and orphans those that were in no partition of the metastore",
    )


def _elsewhere(metadata: TableMetadata, options: IcebergTableOptions) -> list[str]:
    """Return the properties that send files outside the table's folder, and those that its owner has named."""
    homes = [home for home in map(_place, (metadata.location, *options.folders)) if home is not None]
    named = {key: _place(metadata.properties[key]) for key in _ELSEWHERE if key in metadata.properties}
    return [key for key, place in named.items() if place is None or not any(_lies_in(place, home) for home in homes)]


def _place(path: str) -> Place | None:
    try:
        return place_of(path, store="")
    except NoPlaceError:
        return None


def _lies_in(place: Place, home: Place) -> bool:
    return place.store == home.store and place.names[: len(home.names)] == home.names
