"""What one observation hands to the next: what was read of files that never change, for as long as the table
has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.backlog.blockers import UnreadableSnapshots
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import VersionsSeen
from lakewarden.planners.formats.iceberg.metadata.digests import (
    LiveFile,
    ManifestDigest,
    Origin,
    TalliedWrite,
    WriteMark,
)
from lakewarden.planners.formats.iceberg.metadata.files import (
    PartitionTally,
    Tallies,
    Tallying,
    TallyKey,
    VanishedError,
    files_of,
    manifests_of,
)
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent, Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    Told,
    UnusableFileError,
)
from lakewarden.planners.formats.iceberg.rewriting.groups import grouped_as, is_unpartitioned
from lakewarden.planners.formats.iceberg.rewriting.selection import Thresholds
from lakewarden.planners.formats.iceberg.writers.activity import is_update
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

# The files of a snapshot, as far as policies need them: some files one by one, and tallies of the others.
#
# A data file is kept by itself if deletes may apply to it, or if all files are rewritten. For the other files a rewrite
# needs to know how many are too small or too large, and which writers touched their partitions.


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """The delete files, the data files that are kept by themselves, and the tallies of the other data files. `rowless`
    data files have no row according to their manifests, or an unknown number.
    """

    files: Sequence[LiveFile] = ()
    tallies: Mapping[TallyKey, PartitionTally] = field(default_factory=dict)
    rowless: int = 0

    @property
    def data_files(self) -> int:
        """Return how many data files there are."""
        alone = sum(1 for file in self.files if file.content is FileContent.DATA)
        return alone + sum(tally.files for tally in self.tallies.values())

    @property
    def delete_files(self) -> int:
        """Return how many delete files there are."""
        return sum(1 for file in self.files if file.content is not FileContent.DATA)

    def written(self) -> Iterator[WriteMark]:
        """Yield which commits wrote to each partition. Of the tallied files, only the commits that an `Outline`
        keeps.
        """
        yield from self.files
        for (_, partition), tally in self.tallies.items():
            for sequence, snapshot in tally.origins:
                yield TalliedWrite(partition, sequence, snapshot)


class HeldDigests(NamedTuple):
    """The digests of a snapshot's manifests. Those of data files are keyed by path. Those of delete files are a
    list.
    """

    data: Mapping[str, ManifestDigest]
    deletes: Sequence[ManifestDigest]

    def everything(self) -> Holdings:
        """Return every file by itself."""
        files = tuple(file for digest in (*self.data.values(), *self.deletes) for file in digest.live())
        return Holdings(files=files, rowless=self._rowless())

    def holdings(self, metadata: TableMetadata, rules: Thresholds, known: Tallies) -> tuple[Holdings, Tallies]:
        """Return what a rewrite by these rules needs, and the tallies for the next observation. Tallies that are
        `known` are used again if nothing has changed.
        """
        deletes = tuple(file for delete in self.deletes for file in delete.live())
        if _apply_everywhere(deletes, metadata):
            return self.everything(), Tallies()
        outline = Outline(metadata)
        tallies = known.again(self.data, Tallying(smallest=rules.smallest, largest=rules.largest, outline=outline))
        total = tallies.total()
        names = {grouped_as(delete.spec, delete.partition, metadata) for delete in deletes}
        alone = {place for place in total if names and grouped_as(*place, metadata) in names}
        files = (*deletes, *self._of(alone))
        others = {at: tally for at, tally in total.items() if at not in alone}
        return Holdings(files=files, tallies=others, rowless=self._rowless()), tallies

    def _rowless(self) -> int:
        return sum(digest.rowless for digest in self.data.values())

    def _of(self, places: Iterable[TallyKey]) -> Iterator[LiveFile]:
        partitions: dict[int, set[str]] = {}
        for spec, partition in places:
            partitions.setdefault(spec, set()).add(partition)
        for digest in self.data.values():
            if digest.spec in partitions:
                yield from digest.live(partitions[digest.spec])


def _apply_everywhere(deletes: Iterable[LiveFile], metadata: TableMetadata) -> bool:
    """Whether there is an equality delete of a spec without partitions. It applies to files of every spec."""
    return any(
        delete.content is FileContent.EQUALITY_DELETES and is_unpartitioned(metadata.specs.get(delete.spec, ()))
        for delete in deletes
    )


class Outline:
    """Chooses a few of the commits that added files to a partition. They suffice to tell which writers touched it: the
    newest and the oldest commit, the newest two that changed rows, and the newest that is no known write, if there is
    one.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._snapshots = metadata.by_id

    def __call__(self, origins: Iterable[Origin]) -> tuple[Origin, ...]:
        """Return the chosen commits. They tell the same as all of them."""
        kept: set[Origin] = set()
        writes: list[tuple[datetime, Origin]] = []
        updates: list[tuple[datetime, Origin]] = []
        others: list[Origin] = []
        newest = (-1, 0)
        for origin in origins:
            newest = max(newest, origin)
            snapshot = self._snapshots.get(origin[1])
            if snapshot is None or snapshot.operation == "replace":
                others.append(origin)
                continue
            writes.append((snapshot.at, origin))
            if snapshot.operation != "append" and is_update(snapshot):
                updates.append((snapshot.at, origin))
        kept.add(newest)
        if writes:
            kept |= {max(writes)[1], min(writes)[1]}
        if others:
            kept.add(max(others))
        if updates:
            kept.update(origin for _, origin in sorted(updates)[-2:])
        return tuple(sorted(kept))


_GONE = "restore it from a backup, or from what its store keeps of deleted files"
_DAMAGED = (
    "if other engines read the table, Lakewarden is at fault, and the table needs no repair; "
    "otherwise restore it from a backup"
)
"""A snapshot without the file has fewer rows. So the remedy does not advise to go back to one."""

_NOT_READ = "correct that at the store, or in the entry for the store under storage"
"""The file may be whole. The store, or the settings of it, are at fault."""

_MANY_SNAPSHOTS = 2000
"""With fewer snapshots nothing is kept of them. It takes about 20 ms to decode them again, and a daemon has thousands
of tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """What is remembered of a table: the digests of its current manifests by path and length, the partitions that
    recent updates touched by snapshot, what the metadata file says of its snapshots if there are many, the tallies of
    the data files, the manifest lists and manifests that old snapshots have lost, and the versions of the table.
    """

    digests: Mapping[ManifestKey, ManifestDigest] = field(default_factory=dict)
    touched: Mapping[int, frozenset[str]] = field(default_factory=dict)
    told: Told | None = None
    tallies: Tallies = field(default_factory=Tallies)
    lost: UnreadableSnapshots = field(default_factory=UnreadableSnapshots)
    versions: VersionsSeen = field(default_factory=VersionsSeen)


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestPass:
    """One pass over a table's manifests. It keeps what it has read. A file that cannot be read is a fault. After
    `ends_at`, on the monotonic clock, it reads one more manifest at most. The next pass continues.
    """

    storage: Storage
    metadata: TableMetadata
    remembered: Memo
    ends_at: float | None = None
    digests: dict[ManifestKey, ManifestDigest] = field(default_factory=dict)
    touched: dict[int, frozenset[str]] = field(default_factory=dict)
    lists: dict[int, tuple[Manifest, ...]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def manifests(self, snapshot: Snapshot | None) -> tuple[Manifest, ...]:
        """Return a snapshot's manifests. If its list cannot be read, return none and note a fault."""
        if snapshot is None:
            return ()
        if snapshot.id not in self.lists:
            self.lists[snapshot.id] = self._listed(snapshot)
        return self.lists[snapshot.id]

    def digest(self, manifest: Manifest) -> ManifestDigest | None:
        """Return the digest of a manifest of the current snapshot, from memory if it was read before. If the manifest
        cannot be read, return None and note a fault.
        """
        digest = self.digests.get(_place(manifest)) or self._digest(manifest)
        if digest is not None:
            self.digests[_place(manifest)] = digest
        return digest

    def partitions_of(self, update: Snapshot) -> frozenset[str]:
        """Return the partitions in which a commit added or removed files, from memory if they are known."""
        partitions = self.remembered.touched.get(update.id)
        if partitions is None:
            its_own = [manifest for manifest in self.manifests(update) if manifest.added_by == update.id]
            digests = [self.digests.get(_place(manifest)) or self._digest(manifest) for manifest in its_own]
            parts = (digest.touched_by(update.id) | digest.removed_from for digest in digests if digest is not None)
            partitions = frozenset().union(*parts)
        self.touched[update.id] = partitions
        return partitions

    def held(self, manifests: Sequence[Manifest]) -> HeldDigests:
        """Return the digests of a snapshot's manifests. Those that were read before come from memory. Of the others it
        reads as many as the time allows. If some are left, it notes a fault.
        """
        data: dict[str, ManifestDigest] = {}
        deletes: list[ManifestDigest] = []
        begun = left = 0
        for manifest in manifests:
            if _place(manifest) not in self.remembered.digests and _place(manifest) not in self.digests:
                if begun and self.ends_at is not None and time.monotonic() > self.ends_at:
                    left += 1
                    continue
                begun += 1
            digest = self.digest(manifest)
            if digest is not None and manifest.of_deletes:
                deletes.append(digest)
            elif digest is not None:
                data[manifest.path] = digest
        if left:
            self.faults.append(
                f"{len(manifests) - left} of its {len(manifests)} manifests have been read so far, and each look "
                "continues from there: a table of this size takes several"
            )
        return HeldDigests(data, deletes)

    def memo(self, tallies: Tallies, lost: UnreadableSnapshots, versions: VersionsSeen) -> Memo:
        """Return what the next reading may remember. If a file could not be read, the partitions of updates are
        forgotten.
        """
        touched = {} if self.faults else self.touched
        memory = self.metadata.told if len(self.metadata.snapshots) >= _MANY_SNAPSHOTS else None
        return Memo(digests=self.digests, touched=touched, told=memory, tallies=tallies, lost=lost, versions=versions)

    def _listed(self, snapshot: Snapshot) -> tuple[Manifest, ...]:
        try:
            return manifests_of(snapshot, self.storage)
        except (VanishedError, PermanentError) as error:
            self.faults.append(_with_remedy(error))
            return ()

    def _digest(self, manifest: Manifest) -> ManifestDigest | None:
        digest = self.remembered.digests.get(_place(manifest))
        if digest is not None:
            return digest
        try:
            return ManifestDigest(files_of([manifest], self.metadata, self.storage), spec=manifest.spec)
        except (VanishedError, PermanentError) as error:
            self.faults.append(_with_remedy(error))
            return None


ManifestKey = tuple[str, int]
"""The path of a manifest, and its length in bytes. The content of a manifest never changes."""


def _place(manifest: Manifest) -> ManifestKey:
    return manifest.path, manifest.length


def _with_remedy(error: LakewardenError) -> str:
    if isinstance(error, VanishedError):
        return f"{error}: {_GONE}"
    if isinstance(error, UnusableFileError):  # it says its own remedy
        return str(error)
    return f"{error}: {_DAMAGED if isinstance(error, CorruptMetadataError) else _NOT_READ}"
