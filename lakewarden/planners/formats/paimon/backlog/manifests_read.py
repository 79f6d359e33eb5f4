"""One pass over the manifests of a table's newest snapshot: those that were read before are not read again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.formats.paimon.metadata.files import (
    REMEDY,
    CorruptMetadataError,
    VanishedError,
    content_of,
    contents,
)
from lakewarden.planners.formats.paimon.metadata.history import History, Remembered
from lakewarden.planners.formats.paimon.metadata.manifests import (
    MOST,
    NO_INDEX,
    Digest,
    IndexFiles,
    Key,
    ManifestMeta,
    Tally,
    digest_of,
    read_index_manifest,
    read_manifest_list,
)
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.writers import Done
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

# The files of a snapshot, as the sum of its manifests. A commit costs what it changed: manifests that came are added,
# and manifests that went are taken off.

Totals = Mapping[Key, Tally]


def changed(totals: Totals, *, came: Iterable[Digest], went: Iterable[Digest]) -> Totals:
    """Return the sums without what is none. Raises DamagedError where files are deleted that no manifest adds, or where
    there are too many levels of buckets.
    """
    sums = dict(totals)
    touched: set[Key] = set()
    for digests, sign in ((came, 1), (went, -1)):
        for digest in digests:
            touched.update(digest.tallies)
            _add(sums, digest.tallies, sign)
    for key in touched:
        tally = sums[key]
        if min(tally) < 0 or (not tally.files and any(tally)) or tally.small > tally.files:
            raise DamagedError(
                f"they delete files of bucket {key[1]} at level {key[2]} that none of them adds, or add some twice"
            )
        if not tally.files:
            del sums[key]
    if len(sums) > MOST:
        raise DamagedError(f"they have files in more than {MOST} levels of buckets, which is more than is counted")
    return sums


def _add(sums: dict[Key, Tally], tallies: Mapping[Key, Tally], sign: int) -> None:
    for key, tally in tallies.items():
        was = sums.get(key)
        if was is None:
            sums[key] = tally if sign > 0 else Tally(-tally.files, -tally.bytes, -tally.rows, -tally.small)
        else:
            sums[key] = Tally(
                was.files + sign * tally.files,
                was.bytes + sign * tally.bytes,
                was.rows + sign * tally.rows,
                was.small + sign * tally.small,
            )


# What one observation hands to the next: what was read of files that never change, as long as the table has them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """Small files by their locations; the digests of the newest snapshot's manifests by their names, and their sums
    unless some are left to be read, made with `small` bytes as the bound of small files; its index manifest, with what
    that names; and of compactions, by their manifest lists, whether they were full in a table with so many `levels`, or
    None if they changed no file. `came` are the partitions into which commits brought files, by their manifest lists.
    `marked` are the markers that were read, and `watched` those that the token has.
    """

    kept: Remembered = field(default_factory=dict)
    small: int = -1
    digests: Mapping[str, Digest] = field(default_factory=dict)
    totals: Totals | None = None
    index: tuple[str | None, IndexFiles] = (None, NO_INDEX)
    levels: int = 0
    full: Mapping[str, bool | None] = field(default_factory=dict)
    came: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    marked: Mapping[bytes, Done] = field(default_factory=dict)
    watched: tuple[str, ...] = ()


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
        if len({manifest.name for manifest in manifests}) < len(manifests):
            raise CorruptMetadataError(f"{self._file(snapshot.delta)} names a manifest of {snapshot.base}: {REMEDY}")
        old_digests = self.remembered.digests if self.remembered.small == self.small else {}
        self.digests.update(
            (manifest.name, old_digests[manifest.name]) for manifest in manifests if manifest.name in old_digests
        )
        self.sums = sum(len(digest.tallies) for digest in self.digests.values())
        came = {
            manifest.name: digest
            for manifest, digest in self.read([manifest for manifest in manifests if manifest.name not in old_digests])
        }
        self.digests.update(came)
        left = len(manifests) - len(self.digests)
        return Files(
            totals=None if left else self._summed(old_digests, came, snapshot),
            manifests=len(manifests),
            mergeable=sum(manifest.size < self.small_manifest or manifest.deleted > 0 for manifest in manifests),
            external=sum(digest.external for digest in self.digests.values()),
            has_row_ids=any(digest.has_row_ids for digest in self.digests.values()),
            unknown=tuple(sorted(frozenset[str]().union(*(digest.unknown for digest in self.digests.values())))),
            index=self._index(snapshot),
            left=left,
        )

    def listed(self, manifest_list: str, size: int | None) -> tuple[ManifestMeta, ...]:
        """Return what a manifest list names."""
        file = self._file(manifest_list)
        return read_manifest_list(content_of(file, self.storage), file=file, size=size)

    def read(self, manifests: Sequence[ManifestMeta]) -> Iterator[tuple[ManifestMeta, Digest]]:
        """Yield manifests with their digests, as many as there is time for."""
        by_file = {self._file(manifest.name): manifest for manifest in manifests}
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

    def _summed(self, old_digests: Mapping[str, Digest], came: Mapping[str, Digest], snapshot: Snapshot) -> Totals:
        before = self.remembered.totals
        if before is None or not old_digests:
            before, came, went = {}, self.digests, []
        else:
            went = [digest for name, digest in old_digests.items() if name not in self.digests]
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
        name, index_files = self.remembered.index
        if name == snapshot.index:
            return index_files
        file = self._file(snapshot.index)
        return read_index_manifest(content_of(file, self.storage), file=file)

    def _file(self, name: str) -> str:
        return f"{self.location}/manifest/{name}"


# When rows came into each partition last, as far as the table tells.
#
# The commits of writers tell it exactly, as long as their snapshots are kept. For the time before them there is a
# bound: no rows came later than the first kept snapshot, nor later than the newest file was written. The time of a file
# has no zone: it is the local time of its writer (`DataFileMeta.creationTime` of Paimon 1.3.1).

_WEST, _EAST = timedelta(hours=12), timedelta(hours=14)
"""So far behind and before UTC is local time anywhere."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)


class Came(NamedTuple):
    """The newest commit that brought rows into a partition."""

    snapshot: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What is known of all partitions. `came` has those into which a commit from the snapshot `first` on brought rows.
    The rows of earlier commits came until `since`. `created` are the times of the newest files, in milliseconds of a
    local time.
    """

    first: int
    newest: int
    since: datetime
    came: Mapping[bytes, Came] = field(default_factory=dict)
    created: Mapping[bytes, int] = field(default_factory=dict)

    def latest(self, partition: bytes) -> datetime:
        """Return a moment after which no rows came into a partition."""
        came = self.came.get(partition)
        if came is not None:
            return came.at
        created = self._created(partition)
        return self.since if created is None else min(self.since, created + _WEST)

    def came_after(self, partition: bytes, done: Done) -> bool:
        """Whether rows came after a partition was done. If the snapshots of that time are gone, only a file counts that
        is newer in every time zone: it may be of a compaction, which brings no rows.
        """
        came = self.came.get(partition)
        is_newer = came is not None and came.at > done.at
        if done.snapshot is not None and done.snapshot <= self.newest:
            is_newer = is_newer or (came is not None and came.snapshot > done.snapshot)  # not so after a rollback
            is_whole = self.first <= done.snapshot + 1
        else:
            is_whole = self.since <= done.at
        if is_newer or is_whole or came is not None:
            return is_newer
        created = self._created(partition)
        return created is not None and created - _EAST > done.at

    def _created(self, partition: bytes) -> datetime | None:
        created = self.created.get(partition)
        if created is None:
            return None
        return min(_EPOCH + timedelta(milliseconds=max(0, min(created, 2**47))), _LAST)


def changes_of(reading: ManifestReading, history: History, known: dict[str, frozenset[bytes]]) -> Changes | None:
    """Return when rows came into the partitions. `known` are the partitions of commits that were looked at before, by
    their manifest lists. None for a table without a snapshot.
    """
    newest = history.newest
    if newest is None:
        return None
    came: dict[bytes, Came] = {}
    first, since = newest.id + 1, newest.at
    for snapshot in reversed(history.snapshots):
        since = snapshot.at
        if snapshot.is_write:
            partitions = known.get(snapshot.delta) if snapshot.delta in known else _looked_at(snapshot, reading)
            if partitions is None:
                break
            known[snapshot.delta] = partitions
            for partition in partitions:
                came.setdefault(partition, Came(snapshot.id, snapshot.at))
        first = snapshot.id
    kept = {snapshot.delta for snapshot in history.snapshots}
    for name in [name for name in known if name not in kept]:
        del known[name]
    created = _newest(reading.digests.values())
    return Changes(first=first, newest=newest.id, since=since, came=came, created=created)


def _looked_at(snapshot: Snapshot, reading: ManifestReading) -> frozenset[bytes] | None:
    """Return the partitions into which a commit brought files. None if its manifests are gone, or there was no time."""
    try:
        manifests = reading.listed(snapshot.delta, snapshot.delta_size)
        digests_read = reading.digests
        new = list(reading.read([manifest for manifest in manifests if manifest.name not in digests_read]))
    except VanishedError:  # it was expired meanwhile
        return None
    digests = [
        *(digest for _, digest in new),
        *(digests_read[manifest.name] for manifest in manifests if manifest.name in digests_read),
    ]
    if len(digests) < len(manifests):
        return None
    return frozenset(partition for digest in digests for partition, _, _ in digest.added)


def _newest(digests: Iterable[Digest]) -> Mapping[bytes, int]:
    newest: dict[bytes, int] = {}
    for digest in digests:
        for partition, created in digest.created.items():
            if created > newest.get(partition, 0):
                newest[partition] = created
    return newest
