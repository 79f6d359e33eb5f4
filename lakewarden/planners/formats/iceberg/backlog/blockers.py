"""What blocks services on an Iceberg table, with the remedy for an operator. Pure."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.lost import LostManifest, needed_by
from lakewarden.planners.formats.iceberg.deletion.own_folders import REMEDY
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DELETING
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.files import missing
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import (
    METADATA_PATH,
    PLACES,
    IcebergTableOptions,
    Outside,
    options_of,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_size, shown
from lakewarden.planners.storage.inside import NoPlaceError, PathParts, place_of

NEWEST_VERSION = 3
"""The newest format version that Lakewarden can read. Iceberg 1.11.0 has the beginnings of version 4."""

UNKNOWN_TO_SPARK = frozenset({"time", "timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography"})
"""Column types that Iceberg 1.11.0 refuses to hand to Spark 3.5 (`TypeToSparkType`). A rewrite keeps row lineage,
default values, deletion vectors and the type `unknown`."""

ROW_LINEAGE = 3
"""The format version from which on each row has a `_row_id`."""

_WRITES_IN = "write.format.default"
"""With `orc`, compaction and clustering give rows new ids, with `parquet` and `avro` they do not (run on 1.11.0)."""

_REWRITING = frozenset({Service.COMPACTION, Service.CLUSTERING})
_READING = frozenset({Service.COMPACTION, Service.CLUSTERING, Service.TABLE_STATS})
_DELETING = frozenset({Service.CLEAN, Service.ORPHANS})

_OF_NESSIE = "nessie."

_TABLE_BUCKET = re.compile(r"s3[an]?://[^/]+--table-s3(/|$)")
"""The bucket of a table in S3 Tables, as Amazon names it."""

LEAVE_TO_TABLE_BUCKET = (
    "remove its clean and orphans policies: a table bucket expires snapshots and deletes unknown files by itself"
)

_CODEC = "write.metadata.compression-codec"
_BY_ZSTD = (".zstd.metadata.json", ".metadata.json.zstd")

_LARGE = 100 * 2**20
_HEAP = 6
"""A metadata file from so many bytes on has a warning. Iceberg's client needs so many bytes of heap for each of its
bytes: it holds the whole text as a tree (`TableMetadataParser`; run with 1.11.0: 76 MiB took 390 MiB while they were
read and 223 MiB afterwards, 228 MiB took 1,034 and 543; a commit holds two versions).
"""


def is_encrypted(metadata: TableMetadata) -> bool:
    """Whether the table's manifests are encrypted. Nothing can read them without the keys."""
    return "encryption.key-id" in metadata.properties or metadata.has_keys


def files_needed_elsewhere(metadata: TableMetadata) -> Iterator[Blocker]:
    """Yield why no file may be deleted, if the table's own properties say that something else may need it.

    Source: Iceberg 1.11, `TableProperties.GC_ENABLED`, `nessie.NessieUtil` (`nessie.commit.id`). Nessie's own server
    writes `nessie.catalog.*`.
    """
    if metadata.properties.get("gc.enabled", "true").lower() != "true":
        yield _all_files_stay(
            reason="the table says gc.enabled=false: another table may need its files, and Iceberg deletes none",
            remedy="remove its clean and orphans policies, or set gc.enabled=true if no other table has its files",
        )
        return
    of_nessie = sorted(key for key in metadata.properties if key.lower().startswith(_OF_NESSIE))
    if of_nessie:
        yield _all_files_stay(
            reason=f"the table is one of Nessie's (it has the property {of_nessie[0]}): other branches and tags there "
            "may need the files and snapshots that this catalog does not know of",
            remedy="remove its clean and orphans policies, and let Nessie's own GC tool delete; if Nessie does not "
            f"have the table any more, unset {', '.join(of_nessie)}",
        )


def _all_files_stay(*, reason: str, remedy: str) -> Blocker:
    return Blocker(code="files_needed_elsewhere", services=_DELETING, reason=reason, remedy=remedy)


def blockers(metadata: TableMetadata, options: IcebergTableOptions) -> Iterator[Blocker]:
    """Yield what blocks services, the gravest first."""
    if metadata.format_version > NEWEST_VERSION:
        yield Blocker(
            code="unsupported_version",
            reason=f"format version {metadata.format_version} is unknown to Lakewarden",
            remedy=f"it knows versions 1 to {NEWEST_VERSION}: upgrade Lakewarden",
        )
    if is_encrypted(metadata):
        yield Blocker(
            code="unsupported_table",
            reason=f"the table is encrypted ({'encryption-keys' if metadata.has_keys else 'encryption.key-id'}): "
            "Lakewarden has no keys to read its manifests with",
            remedy="remove it from the configuration, and let an engine that has the keys maintain it",
        )
    if _lies_elsewhere(metadata):
        yield Blocker(
            code="moved_or_copied",
            reason=f"the table with the metadata file {metadata.file} says that it lies in {metadata.location}: it was "
            "moved, or it is a copy and names the files of another table",
            remedy="register it where it says that it lies; make a copy with Iceberg's rewrite_table_path",
        )
    foreign = sorted(metadata.types & UNKNOWN_TO_SPARK)
    if foreign:
        yield Blocker(
            services=_READING,
            code="unsupported_table",
            reason=f"the table has columns of type {', '.join(foreign)}, which Iceberg cannot hand to Spark 3.5",
            remedy="remove its compaction, clustering and table_stats policies: its other services are not concerned",
        )
    if metadata.format_version >= ROW_LINEAGE and metadata.properties.get(_WRITES_IN, "").lower() == "orc":
        yield Blocker(
            code="unsupported_table",
            services=_REWRITING,
            reason="the rows of the table have ids (format version 3), which Iceberg's rewrite loses in ORC files",
            remedy=f"set {_WRITES_IN} to parquet, or remove its compaction and clustering policies",
        )
    yield from _of_deletions(metadata)
    elsewhere = [] if options.outside is Outside.LEAVE else _elsewhere(metadata, options)
    if elsewhere:
        yield Blocker(
            services=frozenset({Service.CLEAN}),
            code="moved_or_copied",
            reason=f"{elsewhere[0]} is {metadata.properties[elsewhere[0]]}, outside the table's folder "
            f"{metadata.location}: what lies there may belong to others, and is not deleted",
            remedy=REMEDY,
        )


def unknown_to_java(metadata: TableMetadata) -> Iterator[Blocker]:
    """Yield what blocks every service if Iceberg's client for Java reads and writes the metadata file itself, as in all
    catalogs but REST.

    Source: Iceberg 1.11.0, `TableMetadataParser.Codec` has NONE and GZIP. iceberg-go writes zstd, too.
    """
    codec = metadata.properties.get(_CODEC, "").lower()
    if metadata.file.endswith(_BY_ZSTD) or codec == "zstd":
        yield Blocker(
            code="unsupported_table",
            reason="the table's metadata files are compressed by zstd, which Iceberg's client for Java does not know: "
            f"no service can open the table ({_CODEC} is {shown(codec)})",
            remedy=f"set {_CODEC}=gzip with the engine that writes the table, and commit to it",
        )


def two_vectors(files: Iterable[LiveFile]) -> Iterator[Blocker]:
    """Yield what blocks every service that reads rows if a data file has two deletion vectors. No engine can say which
    rows it has (`DeleteFileIndex` of 1.11.0: "Can't index multiple DVs").
    """
    seen: set[int] = set()
    for file in files:
        if not file.is_vector or file.references is None:
            continue
        if file.references in seen:
            yield Blocker(
                services=_READING,
                code="doubled_vectors",
                reason=f"a data file in {file.partition or 'the table'} has two deletion vectors: no engine reads it",
                remedy="find the writer that made the second one; replace both by one vector with the rows of both "
                "(Table.newRowDelta of Iceberg's API, with removeDeletes and addDeletes, and with validateFromSnapshot "
                "of the current snapshot), which loses no commit",
            )
            return
        seen.add(file.references)


def _of_deletions(metadata: TableMetadata) -> Iterator[Blocker]:
    """Yield what forbids every deletion."""
    yield from files_needed_elsewhere(metadata)
    if _TABLE_BUCKET.match(metadata.location):
        yield Blocker(
            services=_DELETING,
            code="unsupported_store",
            reason=f"the table lies in a table bucket of S3 Tables ({metadata.location}), which takes only files with "
            "names of Iceberg: clean and orphans keep their plan in a file beside the table",
            remedy=LEAVE_TO_TABLE_BUCKET,
        )
    inline = [snapshot.id for snapshot in metadata.snapshots if snapshot.manifest_list is None]
    if inline:
        yield Blocker(
            services=_DELETING,
            code="unsupported_version",
            reason=f"snapshot {inline[0]} has no manifest list, as the first releases of Iceberg wrote it: which "
            "files it needs is not known",
            remedy="expire it by hand (CALL system.expire_snapshots with snapshot_ids)",
        )
    if _is_a_root(metadata.location):
        yield Blocker(
            services=frozenset({Service.ORPHANS}),
            code="moved_or_copied",
            reason=f"the table's location {metadata.location} is not a folder of its own: what lies there may "
            "belong to "
            "others",
            remedy="remove its orphans policy",
        )


def _lies_elsewhere(metadata: TableMetadata) -> bool:
    """Whether the metadata file lies in no folder where the writers of its table keep such files."""
    spelled = Spelling()
    usual = f"{metadata.location}/metadata"
    folders = {spelled.folder(folder) for folder in (usual, metadata.properties.get(METADATA_PATH, usual))}
    return spelled.folder(posixpath.dirname(metadata.file)) not in folders


def _is_a_root(location: str) -> bool:
    """Whether a location is a whole bucket or file system."""
    scheme, _, rest = location.rpartition("://")
    return not (rest.partition("/")[2] if scheme else rest.removeprefix("file:")).strip("/")


def warnings(metadata: TableMetadata) -> tuple[str, ...]:
    """Return what an operator should know of the table although it blocks nothing.

    Source: Iceberg 1.11, `spark.actions.MigrateTableSparkAction` (`migrated`, and the backup of the table as it was).
    """
    elsewhere = tuple(
        f"{key} is {metadata.properties[key]}, outside the table's folder: orphans looks for none there"
        for key in _elsewhere(metadata, IcebergTableOptions())
    )
    large = tuple(_too_large_for_a_small_heap(metadata))
    if metadata.properties.get("migrated", "").lower() != "true":
        return (*elsewhere, *large)
    return (
        *elsewhere,
        *large,
        "the table was migrated where it lies (migrated=true): its backup (..._BACKUP_) names the same files. "
        "Clean deletes those that are rewritten, and orphans those that were in no partition of the metastore",
    )


def _too_large_for_a_small_heap(metadata: TableMetadata) -> Iterator[str]:
    if metadata.size >= _LARGE:
        heap = format_size(_HEAP * metadata.size)
        yield (
            f"its metadata file has {format_size(metadata.size)}, with {len(metadata.snapshots)} snapshots. Iceberg's "
            f"client for Java needs about {heap} of heap for it, and a worker with less ends: give the profile of the "
            "table as much (spark.<profile>.memory). A clean makes the file smaller"
        )


def _elsewhere(metadata: TableMetadata, options: IcebergTableOptions) -> list[str]:
    """Return the properties that send files outside the table's folder and outside the folders that the options
    name.
    """
    homes = [home for home in map(_place, (metadata.location, *options.folders)) if home is not None]
    named = {key: _place(metadata.properties[key]) for key in PLACES if key in metadata.properties}
    return [key for key, place in named.items() if place is None or not any(_lies_in(place, home) for home in homes)]


def folders_of(metadata: TableMetadata, options: IcebergTableOptions) -> Sequence[str]:
    """Return the addresses of the folders that a table has as its own: the first is its location. Folders elsewhere
    that a property names, and the options do not, are not among them.
    """
    elsewhere = _elsewhere(metadata, options)
    named = (metadata.properties[key] for key in PLACES if key in metadata.properties and key not in elsewhere)
    return tuple(dict.fromkeys(address_of(folder) for folder in (metadata.location, *options.folders, *named)))


def folder_of(metadata: TableMetadata) -> str:
    """Return the address of a table's folder. Empty if the table is a copy: it is Blocked, and its original is not."""
    return "" if _lies_elsewhere(metadata) else address_of(metadata.location)


def _place(path: str) -> PathParts | None:
    try:
        return place_of(path, store="")
    except NoPlaceError:
        return None


def _lies_in(place: PathParts, home: PathParts) -> bool:
    return place.store == home.store and place.names[: len(home.names)] == home.names


# Snapshots that have lost their manifest list, or a manifest. No engine can read them, and it is not known which files
# they need.

_AGAIN = timedelta(hours=6)
"""A listing of a folder with a manifest list for each of 10,000 snapshots takes 30 requests, so it is not read at each
observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableSnapshots:
    """The manifest lists and manifests that were lost at `seen_at`."""

    files: tuple[LostManifest, ...] = ()
    seen_at: datetime | None = None

    def looked_for(
        self, table: Table, metadata: TableMetadata, current: Sequence[Manifest], storage: Storage, *, now: datetime
    ) -> UnreadableSnapshots:
        """Look again if it is time to, or if some were lost. Look only if a policy of the table deletes files. If the
        store does not tell, nothing new is known. `current` are the manifests of the current snapshot.
        """
        if table.policies.keys().isdisjoint(DELETING):
            return UnreadableSnapshots()
        if not self.files and self.seen_at is not None and now - self.seen_at < _AGAIN:
            return self
        with contextlib.suppress(LakewardenError):
            return UnreadableSnapshots(files=tuple(_lost(metadata, current, storage)), seen_at=now)
        return self


def _lost(metadata: TableMetadata, current: Sequence[Manifest], storage: Storage) -> Iterator[LostManifest]:
    """Yield what is lost. The list of each snapshot is looked for. If a branch or a tag may keep an old snapshot for
    ever, its list is read, too, and its manifests are looked for. The run names what else is lost or damaged.
    """
    lists = {
        snapshot.manifest_list: snapshot.id for snapshot in metadata.snapshots if snapshot.manifest_list is not None
    }
    lost = dict.fromkeys(missing(lists, storage), False)
    needing = dict[str, Sequence[int]]()
    old = {ref.snapshot for ref in metadata.refs} - {metadata.current}
    if not is_encrypted(metadata):
        with contextlib.suppress(PermanentError):  # the run says what is wrong
            named = {path: snapshot for path, snapshot in lists.items() if snapshot in old and path not in lost}
            needing.update(needed_by(named, storage, lost))
            lost |= dict.fromkeys(missing(needing, storage), False)
    its_own = {manifest.path for manifest in current}
    for path, is_damaged in lost.items():
        snapshots = [lists[path]] if path in lists else needing[path]
        if path in its_own and metadata.current is not None:
            snapshots = [*snapshots, metadata.current]
        yield LostManifest(path=path, is_list=path in lists, is_damaged=is_damaged, snapshots=tuple(snapshots))


def blocked_by_lost_manifests(
    lost: UnreadableSnapshots, table: Table, metadata: TableMetadata, now: datetime
) -> Iterator[Blocker]:
    """Yield what blocks clean and orphans. A clean that expires the snapshots helps itself. Of several files that the
    same snapshots have lost, one is named.
    """
    by_need = dict[tuple[int, ...], LostManifest]()
    for file in lost.files:
        if there := tuple(snapshot for snapshot in file.snapshots if snapshot in metadata.by_id):
            by_need.setdefault(there, replace(file, snapshots=there))
    expiring = _expiring(table, metadata, now) if by_need else frozenset()
    for snapshots, file in by_need.items():
        stay = tuple(snapshot for snapshot in snapshots if snapshot not in expiring)
        if not stay:
            yield Blocker(
                services=frozenset({Service.ORPHANS}),
                code="manifest_list_lost",
                reason=f"{file.holder(metadata)} is missing its manifest{file.what}, and has not expired yet",
                remedy="nothing if clean runs: it expires the snapshot. Then orphans deletes the files that it alone "
                "needed",
            )
            continue
        held = replace(file, snapshots=stay)
        yield Blocker(
            services=frozenset(DELETING),
            code="manifest_list_lost",
            reason=f"{held.holder(metadata)} is missing its manifest{held.what}: which files it needs is not known",
            remedy=held.remedy(metadata),
        )


def _expiring(table: Table, metadata: TableMetadata, now: datetime) -> frozenset[int]:
    policy = table.policies.get(Service.CLEAN)
    if policy is None or not isinstance(policy.options, CleanOptions):
        return frozenset()
    with contextlib.suppress(LakewardenError):  # then clean is blocked by that
        return frozenset(expirable(metadata, policy.options, options_of(table), now).ids)
    return frozenset()
