"""What is remembered of a manifest: the few numbers of each live file that policies need, packed and without paths."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile, FileContent

_NO_FILE = 0


class LiveFile(NamedTuple):
    """A data or delete file of the current snapshot.

    `partition` is for people and for comparing within one spec (`ContentFile.partition`). `size` is in bytes. `records`
    counts rows, or deletes, and is -1 if they were not counted. `sequence` is its data sequence number. `snapshot`
    is the snapshot that added it. `key` stands for its path. `references` is the key of the one data file that a delete
    file is for, if it is for one only. Both keys have a meaning within this process alone.
    """

    partition: str
    spec: int
    content: FileContent
    is_vector: bool
    size: int
    records: int
    sequence: int
    snapshot: int
    key: int
    references: int | None


class TalliedWrite(NamedTuple):
    """A snapshot that added tallied files with a data sequence number to a partition."""

    partition: str
    sequence: int
    snapshot: int


WriteMark = LiveFile | TalliedWrite
"""What says which snapshot added a file to a partition."""

Origin = tuple[int, int]
"""A data sequence number, and the snapshot that added the file."""


class ManifestDigest:
    """The live files of one manifest, packed into about 40 bytes each.

    `spec` is the partition spec of the manifest. `partitions` and `origins` are those of the files. `removed_from` are
    the partitions from which the snapshot that wrote the manifest removed files. `rowless` is how many of the files
    have no row according to the manifest, or an unknown number. `deletes_by` are the fields by which its equality
    deletes delete, each with the path of one of those files.
    """

    __slots__ = ("_packed", "deletes_by", "origins", "partitions", "removed_from", "rowless", "spec")

    def __init__(self, files: Iterable[ContentFile], *, spec: int) -> None:
        """Pack `files`: all files of the manifest, the deleted ones included. `spec` is the partition spec of the
        manifest.
        """
        partitions: dict[str, int] = {}
        origins: dict[tuple[int, int], int] = {}
        removed: set[str] = set()
        packed = bytearray()
        self.rowless = 0
        deletes_by: dict[int, str] = {}
        for file in files:
            partition = sys.intern(file.partition)
            if not file.is_live:
                removed.add(partition)
                continue
            self.rowless += file.records <= 0
            deletes_by |= dict.fromkeys(file.equality_ids, file.path)
            packed += _FILE.pack(
                partitions.setdefault(partition, len(partitions)),
                origins.setdefault((file.sequence or 0, file.snapshot), len(origins)),
                _VECTOR if file.is_deletion_vector else file.content,
                file.size,
                file.records,
                key_of(file.path),
                _NO_FILE if file.references is None else key_of(file.references),
            )
        self.spec, self.partitions, self.origins = spec, tuple(partitions), tuple(origins)
        self._packed = bytes(packed)
        self.removed_from = frozenset(removed) or _NOWHERE
        self.deletes_by: Mapping[int, str] = deletes_by or _BY_NOTHING

    def __len__(self) -> int:
        """Return how many files are live."""
        return len(self._packed) // _FILE.size

    @property
    def of_deletes(self) -> bool:
        """Whether the manifest lists delete files. No manifest has both kinds."""
        return bool(self._packed) and _CONTENTS[_FILE.unpack_from(self._packed)[_KIND]] is not FileContent.DATA

    def live(self, partitions: Collection[str] | None = None) -> Iterator[LiveFile]:
        """Yield the live files in the order of the manifest: all of them, or those of `partitions`."""
        rows = _FILE.iter_unpack(self._packed)
        if partitions is not None:
            wanted = {at for at, partition in enumerate(self.partitions) if partition in partitions}
            rows = (row for row in rows if row[_WHERE] in wanted) if wanted else iter(())
        return map(self._unpacked, rows)

    def named(self, keys: Collection[int]) -> Iterator[LiveFile]:
        """Yield the live files with these keys."""
        return map(self._unpacked, (row for row in _FILE.iter_unpack(self._packed) if row[_KEY] in keys))

    def _unpacked(self, row: tuple[int, ...]) -> LiveFile:
        where, origin, kind, size, records, key, references = row
        sequence, snapshot = self.origins[origin]
        return LiveFile(
            self.partitions[where],
            self.spec,
            _CONTENTS[kind],
            kind == _VECTOR,
            size,
            records,
            sequence,
            snapshot,
            key,
            None if references == _NO_FILE else references,
        )

    def data(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield of each live file the index of its partition, the index of its origin, its bytes, and its rows."""
        return ((where, origin, size, rows) for where, origin, _, size, rows, _, _ in _FILE.iter_unpack(self._packed))

    def touched_by(self, snapshot: int) -> frozenset[str]:
        """Return the partitions to which `snapshot` added files. If it wrote the manifest, these and `removed_from` are
        all partitions that it touched.
        """
        by = {at for at, (_, commit) in enumerate(self.origins) if commit == snapshot}
        return (
            frozenset(self.partitions[where] for where, origin, _, _ in self.data() if origin in by) if by else _NOWHERE
        )


_FILE = Struct("<IIBqqqq")
"""A live file: the indexes of its partition and its origin in the digest, kind, bytes, rows, key, and the key
referenced."""

_WHERE, _KIND, _KEY = 0, 2, 5
_NOWHERE: frozenset[str] = frozenset()
_BY_NOTHING: Mapping[int, str] = MappingProxyType({})
_VECTOR = 3
_CONTENTS = (FileContent.DATA, FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES, FileContent.POSITION_DELETES)


def key_of(path: str) -> int:
    """Return the key of a path within this process. It has 64 bits and is never zero."""
    return hash(path) or 1
