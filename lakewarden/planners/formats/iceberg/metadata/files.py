"""Reads a table's own files at the addresses that its metadata names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest, Origin
from lakewarden.planners.formats.iceberg.metadata.manifests import (
    SMALLER,
    ContentFile,
    Manifest,
    read_manifest,
    read_manifest_list,
)
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    Told,
    UnusableFileError,
)
from lakewarden.planners.formats.iceberg.metadata.parsing import metadata_of
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import FileTooLargeError, read_ahead
from lakewarden.planners.storage.locations import by_key, canonical_location

_LARGEST = 512 * 2**20
"""The largest manifest that is read. Writers cut manifests at `commit.manifest.target-size-bytes`."""

_AT_ONCE = 64 * 2**20
"""A metadata file holds about 1 KB for every snapshot. A larger file is read in parts of so many bytes."""


_RELATIVE = (
    "where that is depends on the folder in which a writer was started. Give its warehouse an absolute path, and write "
    "the table anew, or move its addresses (CALL system.rewrite_table_path)"
)


RESTORED = "if it stays so, restore it from a backup, or from what its store keeps of deleted files"
"""The remedy for a manifest, or a list of manifests, that is not there."""


class VanishedError(TemporaryError):
    """A file that the table named does not exist. An expiry, or a commit that deletes old metadata, was faster."""


def read_table(file: str, storage: Storage, *, told: Told | None = None) -> TableMetadata:
    """Return what a metadata file says. Snapshots that an earlier version has `told` are not decoded again.

    Raises CorruptMetadataError, VanishedError and TemporaryError. Raises PermanentError if the table's location is no
    complete address.
    """
    try:
        parts = _parts(file, storage)
        metadata = metadata_of(parts, file=file, told=told)
    except VanishedError as gone:
        remedy = "if it stays so, restore it, or register the newest version that is there (CALL system.register_table)"
        raise VanishedError(f"{gone}: {remedy}") from gone
    except CorruptMetadataError:
        raise
    except PermanentError as wrong:
        raise PermanentError(f"the table's metadata file cannot be read: {wrong}") from wrong
    if _is_relative(metadata.location):
        raise PermanentError(
            f"{file} says that the table lies in {metadata.location[:200]!r}, which is not a whole address: {_RELATIVE}"
        )
    return metadata


def _parts(file: str, storage: Storage) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the file's content. It may be called several times. A small file takes one
    request.
    """
    try:
        content = _content(file, storage, limit=_AT_ONCE)
    except FileTooLargeError:
        return lambda: _in_parts(file, storage)
    return lambda: iter((content,))


def _in_parts(file: str, storage: Storage) -> Iterator[bytes]:
    for begin in itertools.count(0, _AT_ONCE):
        part = _answer_for(file, partial(storage.read_part, begin=begin, size=_AT_ONCE))
        yield part
        if len(part) < _AT_ONCE:
            return


def manifests_of(snapshot: Snapshot, storage: Storage) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return manifests_in(list_of(snapshot), storage)


def manifests_in(manifest_list: str, storage: Storage) -> tuple[Manifest, ...]:
    """Return the manifests of a manifest list. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return read_manifest_list(content_of(manifest_list, storage), path=manifest_list)


def list_of(snapshot: Snapshot) -> str:
    """Return the path of a snapshot's manifest list. Raises UnusableFileError if it has none."""
    if snapshot.manifest_list is None:
        raise UnusableFileError(
            f"snapshot {snapshot.id} has no manifest list, as none had before Iceberg 0.8: commit to the table once "
            "with a newer release"
        )
    return snapshot.manifest_list


def contents_left(files: Iterable[str], storage: Storage, lost: dict[str, bool]) -> Iterator[tuple[str, bytes]]:
    """Yield those manifests or manifest lists that are there, with their content. Note the others in `lost`: they are
    not damaged, but gone. Raises PermanentError and TemporaryError.
    """
    for file, content in read_ahead(files, lambda file: _if_there(file, storage)):
        if content is None:
            lost[file] = False
        else:
            yield file, content


def _if_there(file: str, storage: Storage) -> bytes | None:
    try:
        return content_of(file, storage)
    except VanishedError:
        return None


def missing(files: Iterable[str], storage: Storage) -> Iterator[str]:
    """Yield those manifests or manifest lists that are not there. Raises PermanentError and TemporaryError."""
    folders: dict[str, dict[str, str]] = {}
    for file in files:
        address = file if file.startswith("/") else _in_a_store(file)
        folder, _, name = address.rpartition("/")
        folders.setdefault(folder, {})[name] = file
    for folder, names in folders.items():
        there = set(storage.present(folder, names))
        yield from (file for name, file in names.items() if name not in there)


def files_of(manifests: Iterable[Manifest], metadata: TableMetadata, storage: Storage) -> Iterator[ContentFile]:
    """Yield the files of manifests, the deleted ones included. Raises CorruptMetadataError, VanishedError and
    TemporaryError.
    """
    for manifest in manifests:
        yield from read_manifest(content_of(manifest.path, storage), manifest, metadata.specs)


_STORES = frozenset({"s3", "gs", "abfss", "hdfs", "wasb", "wasbs", "oss", "viewfs", "memory"})
"""The schemes of stores that may hold a table's files, besides local disks. A metadata file may name any address.
Lakewarden sends no HTTP request to one."""


def _content(file: str, storage: Storage, *, limit: int = _LARGEST) -> bytes:
    return _answer_for(file, lambda spelled: storage.read(spelled, limit=limit))


def content_of(file: str, storage: Storage) -> bytes:
    """Return the content of a manifest or a manifest list. Raises VanishedError, PermanentError and TemporaryError."""
    try:
        return _content(file, storage)
    except FileTooLargeError as large:
        raise UnusableFileError(f"{large}. {SMALLER}") from large


def _answer_for(file: str, ask: Callable[[str], bytes]) -> bytes:
    try:
        # A plain path needs no other spelling. To resolve its links would take longer than to read many manifests.
        return ask(file if file.startswith("/") else _in_a_store(file))
    except FileNotFoundError as error:
        raise VanishedError(f"{file}, which the table names, is not there") from error


def _is_relative(address: str) -> bool:
    return not address.startswith("/") and ":" not in address.partition("/")[0]


def _in_a_store(file: str) -> str:
    """Return the canonical address of a file. Raises UnusableFileError if it is no whole address, or is in no store
    that Lakewarden knows.
    """
    if _is_relative(file):
        raise UnusableFileError(f"the table names the file {file[:200]!r}, which is not absolute: {_RELATIVE}")
    location = canonical_location(file)
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in _STORES:
        raise UnusableFileError(
            f"the table names {file[:200]}: no file of a table is read by {scheme}://. Move its files to a store, and "
            "its addresses (CALL system.rewrite_table_path)"
        )
    return by_key(file) or location


# Counts of many data files together, by partition. A rewrite needs no more of files without deletes.
#
# A table may have ten million files, and a commit adds a few. So manifests are tallied in small bundles, and bundles in
# larger ones. An observation computes only the bundles again in which a manifest was added or removed.

_FAN = 16
_IN_A_BUNDLE = 4
_FAR = 8

TallyKey = tuple[int, str]
"""A partition spec and one of its partitions."""


class PartitionTally(NamedTuple):
    """The data files of one partition. `odd` is how many of them a rewrite would take because of their size. `bytes`,
    `oldest` and `newest` are the bytes and the least and greatest sequence number of those (0 if there are none).
    `origins` are a few origins that stand for those of all files. They tell which writers touched the partition.
    """

    files: int
    odd: int
    bytes: int
    oldest: int
    newest: int
    origins: tuple[Origin, ...]


Outline = Callable[[Iterable[Origin]], tuple[Origin, ...]]
"""Returns a few of many origins. They tell the same as all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallying:
    """How files are tallied. A file of `smallest` to `largest` bytes is not odd. `outline` is the same for all
    observations.
    """

    smallest: int
    largest: int
    outline: Outline = field(compare=False)

    def of(self, digests: Iterable[ManifestDigest]) -> Mapping[TallyKey, PartitionTally]:
        """Return the tallies of some manifests of data files, by partition."""
        return self.merged(map(self._tallied, digests))

    def merged(self, tallies: Iterable[Mapping[TallyKey, PartitionTally]]) -> Mapping[TallyKey, PartitionTally]:
        """Return the sum of several tallies."""
        by_place: dict[TallyKey, list[PartitionTally]] = {}
        for some in tallies:
            for place, tally in some.items():
                place_tallies = by_place.get(place)
                if place_tallies is None:
                    by_place[place] = [tally]
                else:
                    place_tallies.append(tally)
        return {place: alike[0] if len(alike) == 1 else self._together(alike) for place, alike in by_place.items()}

    def _together(self, alike: Sequence[PartitionTally]) -> PartitionTally:
        files, odd, size, _, newest, origins = zip(*alike, strict=True)
        different = set(origins)
        return PartitionTally(
            sum(files),
            sum(odd),
            sum(size),
            min((tally.oldest for tally in alike if tally.odd), default=0),
            max(newest),
            different.pop() if len(different) == 1 else self.outline(set(chain.from_iterable(different))),
        )

    def _tallied(self, digest: ManifestDigest) -> Mapping[TallyKey, PartitionTally]:
        counts = [0] * len(digest.partitions)
        odd: dict[int, list[int]] = {}
        seen: list[set[int]] = [set() for _ in counts]
        for where, origin, size, rows in digest.data():
            counts[where] += 1
            seen[where].add(origin)
            if rows > 0 and not self.smallest <= size <= self.largest:
                sequence = digest.origins[origin][0]
                sums = odd.setdefault(where, [0, 0, sequence, sequence])
                sums[0] += 1
                sums[1] += size
                sums[2] = min(sums[2], sequence)
                sums[3] = max(sums[3], sequence)
        tallies = {}
        for where, partition in enumerate(digest.partitions):
            number, size, oldest, newest = odd.get(where, _NOTHING)
            origins = self.outline(digest.origins[origin] for origin in seen[where])
            tallies[digest.spec, partition] = PartitionTally(counts[where], number, size, oldest, newest, origins)
        return tallies


_NOTHING = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bundle:
    """Tallies of several manifests or bundles. `of` says which."""

    of: tuple[Any, ...]
    tallies: Mapping[TallyKey, PartitionTally]

    def is_of(self, others: tuple[Any, ...]) -> bool:
        return len(self.of) == len(others) and all(map(is_, self.of, others))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallies:
    """The tallies of a table's manifests of data files, and the bundles from which they were computed.

    A bundle has manifests of a similar number of files. Writers merge a hundred young manifests into one. If these were
    in bundles with large ones, nearly all files would be counted again. `bundles` is the number of bundles for each
    number of files.
    """

    how: Tallying | None = None
    small: Mapping[tuple[int, int], _Bundle] = field(default_factory=dict)
    large: Mapping[int, _Bundle] = field(default_factory=dict)
    bundles: Mapping[int, int] = field(default_factory=dict)

    def again(self, digests: Mapping[str, ManifestDigest], how: Tallying) -> Tallies:
        """Return the tallies of `digests`, by the paths of their manifests. Bundles that have not changed are used
        again.
        """
        last_tallies = self if self.how == how else Tallies()
        alike: dict[int, list[tuple[str, ManifestDigest]]] = {}
        for item in digests.items():
            alike.setdefault(len(item[1]).bit_length() // 2, []).append(item)
        bundles = {kind: _bundles(len(some), last_tallies.bundles.get(kind)) for kind, some in alike.items()}
        sorted_in: dict[tuple[int, int], list[ManifestDigest]] = {}
        for kind, some in alike.items():
            for path, digest in some:
                sorted_in.setdefault((hash(path) % bundles[kind], kind), []).append(digest)
        small = {at: _bundled(tuple(every), last_tallies.small.get(at), how.of) for at, every in sorted_in.items()}
        groups: dict[int, list[_Bundle]] = {}
        for (number, _), bundle in sorted(small.items(), key=itemgetter(0)):
            groups.setdefault(number % _FAN, []).append(bundle)
        merge = partial(_merged, how)
        large = {at: _bundled(tuple(group), last_tallies.large.get(at), merge) for at, group in groups.items()}
        return Tallies(how=how, small=small, large=large, bundles=bundles)

    def total(self) -> Mapping[TallyKey, PartitionTally]:
        """Return the tallies of all manifests together."""
        return {} if self.how is None else _merged(self.how, tuple(self.large.values()))


def _merged(how: Tallying, bundles: tuple[_Bundle, ...]) -> Mapping[TallyKey, PartitionTally]:
    return how.merged(bundle.tallies for bundle in bundles)


def _bundled(
    of: tuple[Any, ...],
    last_bundle: _Bundle | None,
    make: Callable[[tuple[Any, ...]], Mapping[TallyKey, PartitionTally]],
) -> _Bundle:
    return last_bundle if last_bundle is not None and last_bundle.is_of(of) else _Bundle(of=of, tallies=make(of))


def _bundles(manifests: int, last_number: int | None) -> int:
    """Return how many bundles there are for so many manifests. It is the known number, unless that is far from what
    would be chosen anew. With another number every file is counted again.
    """
    anew = 1 << max(0, (manifests // _IN_A_BUNDLE - 1).bit_length())
    return (
        last_number if last_number is not None and anew <= last_number * _FAR and last_number <= anew * _FAR else anew
    )
