"""What is kept of a manifest: the few numbers of each live file that policies ask for, in columns and without paths."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.manifests import Content, ContentFile

_NO_FILE = 0


class LiveFile(NamedTuple):
    """A data or delete file of the current snapshot.

    `partition` is for people and for comparing within one spec (`ContentFile.partition`). `size` is in bytes, `records`
    counts rows, or deletes. `sequence` is its data sequence number, `snapshot` the one that added it. `key` stands for
    its path, and `references` for that of the one data file that a delete file is for, if it is for one only; both mean
    something within this process alone.
    """

    partition: str
    spec: int
    content: Content
    is_vector: bool
    size: int
    records: int
    sequence: int
    snapshot: int
    key: int
    references: int | None


class Digest:
    """The live files of one manifest, in about forty bytes each.

    `removed_from` are the partitions from which the snapshot that wrote the manifest removed files.
    """

    __slots__ = ("_columns", "_origins", "_partitions", "_spec", "removed_from")

    def __init__(self, files: Iterable[ContentFile], *, spec: int) -> None:
        """`files` are all that the manifest tells of, the deleted ones included; `spec` is that of the manifest."""
        partitions: dict[str, int] = {}
        origins: dict[tuple[int, int], int] = {}
        removed: set[str] = set()
        where, kinds, from_where = array("I"), array("b"), array("I")
        sizes, records, keys, references = array("q"), array("q"), array("q"), array("q")
        for file in files:
            if not file.is_live:
                removed.add(file.partition)
                continue
            where.append(partitions.setdefault(file.partition, len(partitions)))
            kinds.append(_VECTOR if file.is_deletion_vector else file.content)
            from_where.append(origins.setdefault((file.sequence or 0, file.snapshot), len(origins)))
            sizes.append(file.size)
            records.append(file.records)
            keys.append(key_of(file.path))
            references.append(_NO_FILE if file.references is None else key_of(file.references))
        self._spec, self._partitions, self._origins = spec, tuple(partitions), tuple(origins)
        self._columns = (where, kinds, from_where, sizes, records, keys, references)
        self.removed_from = frozenset(removed)

    def __len__(self) -> int:
        """Return how many files are live."""
        return len(self._columns[0])

    def live(self) -> Iterator[LiveFile]:
        """Yield the live files, in the order of the manifest."""
        for where, kind, from_where, size, records, key, references in zip(*self._columns, strict=True):
            sequence, snapshot = self._origins[from_where]
            yield LiveFile(
                partition=self._partitions[where],
                spec=self._spec,
                content=Content.POSITION_DELETES if kind == _VECTOR else _CONTENTS[kind],
                is_vector=kind == _VECTOR,
                size=size,
                records=records,
                sequence=sequence,
                snapshot=snapshot,
                key=key,
                references=None if references == _NO_FILE else references,
            )

    def touched_by(self, snapshot: int) -> frozenset[str]:
        """Return the partitions to which `snapshot` added files; with those of `removed_from` these are all that it
        touched, if it wrote the manifest.
        """
        where, _, from_where, *_ = self._columns
        its = {at for at, (_, origin) in enumerate(self._origins) if origin == snapshot}
        return frozenset(self._partitions[at] for at, origin in zip(where, from_where, strict=True) if origin in its)


_VECTOR = 3
_CONTENTS = (Content.DATA, Content.POSITION_DELETES, Content.EQUALITY_DELETES)


def key_of(path: str) -> int:
    """Return what stands for a path within this process, in 64 bits; never zero."""
    return hash(path) or 1
