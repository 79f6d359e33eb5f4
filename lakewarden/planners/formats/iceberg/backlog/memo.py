"""What one observation hands to the next: what was read of files that never change, as long as the table has them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.planners.formats.iceberg.backlog.holdings import Held
from lakewarden.planners.formats.iceberg.metadata.digests import Digest
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, files_of, manifests_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata, Told
from lakewarden.planners.formats.iceberg.metadata.tallies import Tallies
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

_GONE = "restore it from a backup, or from what its store keeps of deleted files"
_DAMAGED = (
    "if other engines read the table, the fault is ours, and nothing has to be done to it; "
    "else restore it from a backup"
)
"""A snapshot without the file has fewer rows: nobody is advised to go back to one."""

_MANY_SNAPSHOTS = 2000
"""Fewer are decoded again in some twenty milliseconds, and nothing is kept of them: there are thousands of tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """Digests of the current snapshot's manifests by their paths and lengths, the partitions that recent updates
    touched by their snapshots, what the metadata file told of its snapshots where they are many, and the tallies of the
    data files.
    """

    digests: Mapping[Place, Digest] = field(default_factory=dict)
    touched: Mapping[int, frozenset[str]] = field(default_factory=dict)
    told: Told | None = None
    tallies: Tallies = field(default_factory=Tallies)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One pass over a table's manifests: what it had to know is kept, and what could not be read is a fault. After
    `ends_at`, on the monotonic clock, no more are read than one; the next pass goes on.
    """

    storage: Storage
    metadata: TableMetadata
    remembered: Memo
    ends_at: float | None = None
    digests: dict[Place, Digest] = field(default_factory=dict)
    touched: dict[int, frozenset[str]] = field(default_factory=dict)
    lists: dict[int, tuple[Manifest, ...]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def manifests(self, snapshot: Snapshot | None) -> tuple[Manifest, ...]:
        """Return a snapshot's manifests; none, and a fault, where its list cannot be read."""
        if snapshot is None:
            return ()
        if snapshot.id not in self.lists:
            self.lists[snapshot.id] = self._listed(snapshot)
        return self.lists[snapshot.id]

    def digest(self, manifest: Manifest) -> Digest | None:
        """Return a manifest of the current snapshot, from memory if it was read before; None, and a fault, where it
        cannot be read.
        """
        digest = self.digests.get(_place(manifest)) or self._digest(manifest)
        if digest is not None:
            self.digests[_place(manifest)] = digest
        return digest

    def partitions_of(self, update: Snapshot) -> frozenset[str]:
        """Return the partitions that a commit added files to or removed them from, from memory if they are known."""
        known = self.remembered.touched.get(update.id)
        if known is None:
            its_own = [one for one in self.manifests(update) if one.added_by == update.id]
            digests = [self.digests.get(_place(one)) or self._digest(one) for one in its_own]
            parts = (digest.touched_by(update.id) | digest.removed_from for digest in digests if digest is not None)
            known = frozenset().union(*parts)
        self.touched[update.id] = known
        return known

    def held(self, manifests: Sequence[Manifest]) -> Held:
        """Return the digests of a snapshot's manifests: those that were read before, and of the others as many as there
        is time for. Where some are left, that is a fault.
        """
        data: dict[str, Digest] = {}
        deletes: list[Digest] = []
        begun = left = 0
        for one in manifests:
            if _place(one) not in self.remembered.digests:
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
                f"{len(manifests) - left} of its {len(manifests)} manifests have been read so far, and each look goes "
                "on from there: a table of this size takes several"
            )
        return Held(data, deletes)

    def memo(self, tallies: Tallies) -> Memo:
        """Return what the next reading may remember. What updates touched is not, where something was not readable."""
        touched = {} if self.faults else self.touched
        told = self.metadata.told if len(self.metadata.snapshots) >= _MANY_SNAPSHOTS else None
        return Memo(digests=self.digests, touched=touched, told=told, tallies=tallies)

    def _listed(self, snapshot: Snapshot) -> tuple[Manifest, ...]:
        try:
            return manifests_of(snapshot, self.storage)
        except (VanishedError, PermanentError) as error:
            self.faults.append(_with_remedy(error))
            return ()

    def _digest(self, manifest: Manifest) -> Digest | None:
        known = self.remembered.digests.get(_place(manifest))
        if known is not None:
            return known
        try:
            return Digest(files_of([manifest], self.metadata, self.storage), spec=manifest.spec)
        except (VanishedError, PermanentError) as error:
            self.faults.append(_with_remedy(error))
            return None


Place = tuple[str, int]
"""A manifest's path, and its length in bytes: what is there never changes."""


def _place(manifest: Manifest) -> Place:
    return manifest.path, manifest.length


def _with_remedy(error: LakewardenError) -> str:
    return f"{error}: {_GONE if isinstance(error, VanishedError) else _DAMAGED}"
