"""One pass over the manifests of a table's newest snapshot: those that were read before are not read again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.formats.paimon.backlog.memo import Memo
from lakewarden.planners.formats.paimon.backlog.totals import Totals, changed
from lakewarden.planners.formats.paimon.metadata.files import REMEDY, CorruptMetadataError, content_of, contents
from lakewarden.planners.formats.paimon.metadata.index_manifests import NO_INDEX, IndexFiles, read_index_manifest
from lakewarden.planners.formats.paimon.metadata.manifests import Digest, ManifestMeta, digest_of, read_manifest_list
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

_MOST_SUMS = 1_000_000
"""So many sums are kept of all manifests: some 300 bytes each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """What a snapshot's manifests say: the sums of its data files, how many manifests there are, how many of their
    files lie elsewhere, whether rows have ids, the fields that are not known, the index files; and how many manifests
    are `left` to be read. Then there are no sums.
    """

    totals: Totals | None = field(default_factory=dict)
    manifests: int = 0
    mergeable: int = 0
    external: int = 0
    has_row_ids: bool = False
    unknown: tuple[str, ...] = ()
    index: IndexFiles = NO_INDEX
    left: int = 0


@dataclass(kw_only=True, slots=True)
class ManifestReading:
    """Reads manifests of the table in `location`. A file of fewer bytes than `small` is small, and
    a manifest of fewer than `small_manifest`. After `ends_at`, on the
    monotonic clock, no more manifests are read than one; the next pass goes on from there.
    """

    location: str
    storage: Storage
    remembered: Memo
    small: int
    small_manifest: int = 0
    ends_at: float | None = None
    digests: dict[str, Digest] = field(default_factory=dict)
    sums: int = 0

    def files(self, snapshot: Snapshot | None) -> Files:
        """Return what a snapshot has. Raises CorruptMetadataError, NewerVersionError, VanishedError and
        TemporaryError.
        """
        if snapshot is None:
            return Files()
        manifests = (*self.listed(snapshot.base, snapshot.base_size), *self.listed(snapshot.delta, snapshot.delta_size))
        if len({one.name for one in manifests}) < len(manifests):
            raise CorruptMetadataError(f"{self._file(snapshot.delta)} names a manifest of {snapshot.base}: {REMEDY}")
        known = self.remembered.digests if self.remembered.small == self.small else {}
        self.digests.update((one.name, known[one.name]) for one in manifests if one.name in known)
        self.sums = sum(len(one.tallies) for one in self.digests.values())
        came = {one.name: digest for one, digest in self.read([one for one in manifests if one.name not in known])}
        self.digests.update(came)
        left = len(manifests) - len(self.digests)
        return Files(
            totals=None if left else self._summed(known, came, snapshot),
            manifests=len(manifests),
            mergeable=sum(one.size < self.small_manifest or one.deleted > 0 for one in manifests),
            external=sum(one.external for one in self.digests.values()),
            has_row_ids=any(one.has_row_ids for one in self.digests.values()),
            unknown=tuple(sorted(frozenset[str]().union(*(one.unknown for one in self.digests.values())))),
            index=self._index(snapshot),
            left=left,
        )

    def listed(self, manifest_list: str, size: int | None) -> tuple[ManifestMeta, ...]:
        """Return what a manifest list names."""
        file = self._file(manifest_list)
        return read_manifest_list(content_of(file, self.storage), file=file, size=size)

    def read(self, manifests: Sequence[ManifestMeta]) -> Iterator[tuple[ManifestMeta, Digest]]:
        """Yield manifests with their digests, as many as there is time for."""
        by_file = {self._file(one.name): one for one in manifests}
        for place, (file, content) in enumerate(contents(by_file, self.storage)):
            if isinstance(content, LakewardenError):
                raise content
            if place and self.ends_at is not None and time.monotonic() > self.ends_at:
                return
            digest = digest_of(content, by_file[file], file=file, small=self.small)
            self.sums += len(digest.tallies)
            if self.sums > _MOST_SUMS:
                raise PermanentError(
                    f"the manifests of {self.location} have more than {_MOST_SUMS} sums of levels of buckets, which is "
                    "more than Lakewarden keeps: let its writers merge manifests (manifest.merge-min-count)"
                )
            yield by_file[file], digest

    def _summed(self, known: Mapping[str, Digest], came: Mapping[str, Digest], snapshot: Snapshot) -> Totals:
        before = self.remembered.totals
        if before is None or not known:
            before, came, went = {}, self.digests, []
        else:
            went = [digest for name, digest in known.items() if name not in self.digests]
        try:
            return changed(before, came=came.values(), went=went)
        except DamagedError as wrong:
            raise CorruptMetadataError(
                f"the manifests of {self.location}/snapshot/snapshot-{snapshot.id} contradict each other ({wrong}): "
                f"{REMEDY}"
            ) from wrong

    def _index(self, snapshot: Snapshot) -> IndexFiles:
        if snapshot.index is None:
            return NO_INDEX
        name, known = self.remembered.index
        if name == snapshot.index:
            return known
        file = self._file(snapshot.index)
        return read_index_manifest(content_of(file, self.storage), file=file)

    def _file(self, name: str) -> str:
        return f"{self.location}/manifest/{name}"
