"""What one observation hands to the next: what was read of files that never change, for as long as the table
has them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.planners.formats.iceberg.backlog.holdings import HeldDigests
from lakewarden.planners.formats.iceberg.backlog.unreadable_snapshots import UnreadableSnapshots
from lakewarden.planners.formats.iceberg.deletion.ahead import VersionsSeen
from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, files_of, manifests_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    Told,
    UnusableFileError,
)
from lakewarden.planners.formats.iceberg.metadata.tallies import Tallies
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

_GONE = "restore it from a backup, or from what its store keeps of deleted files"
_DAMAGED = (
    "if other engines read the table, Lakewarden is at fault, and the table needs no repair; "
    "else restore it from a backup"
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
        known = self.remembered.touched.get(update.id)
        if known is None:
            its_own = [one for one in self.manifests(update) if one.added_by == update.id]
            digests = [self.digests.get(_place(one)) or self._digest(one) for one in its_own]
            parts = (digest.touched_by(update.id) | digest.removed_from for digest in digests if digest is not None)
            known = frozenset().union(*parts)
        self.touched[update.id] = known
        return known

    def held(self, manifests: Sequence[Manifest]) -> HeldDigests:
        """Return the digests of a snapshot's manifests. Those that were read before come from memory. Of the others it
        reads as many as the time allows. If some are left, it notes a fault.
        """
        data: dict[str, ManifestDigest] = {}
        deletes: list[ManifestDigest] = []
        begun = left = 0
        for one in manifests:
            if _place(one) not in self.remembered.digests and _place(one) not in self.digests:
                if begun and self.ends_at is not None and time.monotonic() > self.ends_at:
                    left += 1
                    continue
                begun += 1
            digest = self.digest(one)
            if digest is not None and one.of_deletes:
                deletes.append(digest)
            elif digest is not None:
                data[one.path] = digest
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
        told = self.metadata.told if len(self.metadata.snapshots) >= _MANY_SNAPSHOTS else None
        return Memo(digests=self.digests, touched=touched, told=told, tallies=tallies, lost=lost, versions=versions)

    def _listed(self, snapshot: Snapshot) -> tuple[Manifest, ...]:
        try:
            return manifests_of(snapshot, self.storage)
        except (VanishedError, PermanentError) as error:
            self.faults.append(_with_remedy(error))
            return ()

    def _digest(self, manifest: Manifest) -> ManifestDigest | None:
        known = self.remembered.digests.get(_place(manifest))
        if known is not None:
            return known
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
