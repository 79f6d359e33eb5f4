"""Manifest lists and manifests: which files a snapshot has added and deleted.

Both are Avro containers with their whole schema, and never change once they are written.

Source: Paimon's table spec, "Manifest" (docs/docs/concepts/spec/manifest.md): `_VERSION` 2 in both. A file is one
entry of kind ADD, and one of kind DELETE once it is gone, which repeats all that the first said
(`org.apache.paimon.manifest.FileEntry.mergeEntries`). So counts are sums, whatever the order of the manifests. A
compaction that moves a file to another level without writing it deletes it from one level and adds it to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakewarden.planners.decoding.avro import Container, opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import count
from lakewarden.planners.formats.paimon.metadata.files import (
    MALFORMED,
    NewerVersionError,
    corrupt,
    file_name,
    require_known,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import shown

NEWEST = 2
"""The newest version of an entry that is known, of lists and of manifests."""

MOST = 500_000
"""So many levels of buckets of partitions are counted."""

_ADD, _DELETE = 0, 1
_ENTRY = frozenset({"_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"})
_FILE = frozenset(
    {
        "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS",
        "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL", "_EXTRA_FILES", "_CREATION_TIME",
        "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH",
        "_FIRST_ROW_ID", "_WRITE_COLS",
    }
)  # fmt: skip
"""The fields of Paimon 1.3.1 (`ManifestEntry.SCHEMA` and `DataFileMeta.SCHEMA`)."""
_OTHER_FORMATS = {b"ORC": "orc", b"PAR1": "parquet"}
"""How a manifest list begins that is not in Avro."""
_MOST_LEVELS = 256
_LEAST_BUCKET = -2

Key = tuple[bytes, int, int]
"""A partition as a binary row, a bucket, and a level."""


class Tally(NamedTuple):
    """Files of one level of one bucket: how many there are, their bytes and rows, and how many of them are small. Of a
    manifest that deletes files it may be below zero.
    """

    files: int
    bytes: int
    rows: int
    small: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestMeta:
    """One line of a manifest list: a manifest, its bytes, and how many files it adds and deletes."""

    name: str
    size: int
    added: int
    deleted: int


class Digest(NamedTuple):
    """What is kept of a manifest. `added` are the keys to which it adds files; `external` of its files lie elsewhere,
    with rows that have ids of their own if `has_row_ids`. `unknown` are the fields with a value that Lakewarden does
    not know. `created` is when the newest file was written that it adds to a partition, in milliseconds of its writer's
    local time.
    """

    tallies: Mapping[Key, Tally]
    added: frozenset[Key]
    external: int
    has_row_ids: bool
    unknown: frozenset[str] = frozenset()
    created: Mapping[bytes, int] = {}


def read_manifest_list(content: bytes, *, file: str, size: int | None = None) -> tuple[ManifestMeta, ...]:
    """Return the manifests that a list names. `size` is how many bytes the snapshot says that it has.

    Raises CorruptMetadataError and NewerVersionError, and PermanentError for a list that is not in Avro.
    """
    try:
        _require_whole(content, size)
        _require_avro(content, file)
        manifests = [_meta(record, file) for record in opened(content).records()]
        if len({manifest.name for manifest in manifests}) < len(manifests):
            raise DamagedError("it names a manifest twice")
    except MALFORMED as wrong:
        raise corrupt(file, "manifest list", wrong) from wrong
    return tuple(manifests)


def _require_avro(content: bytes, file: str) -> None:
    for sign, name in _OTHER_FORMATS.items():
        if content.startswith(sign):
            raise PermanentError(
                f"{file} is in {name}: the table was made with the option manifest.format={name}, and Lakewarden reads "
                "manifests in avro alone, the default. Rewrite the table without the option, or remove it from the "
                "configuration"
            )


def _require_whole(content: bytes, size: int | None) -> None:
    if size is not None and len(content) != size:
        raise DamagedError(f"it has {len(content)} bytes instead of {size}")


def _meta(record: Mapping[str, Any], file: str) -> ManifestMeta:
    require_known(file, "manifest list", count(record["_VERSION"], "_VERSION"), NEWEST)
    return ManifestMeta(
        name=file_name(record["_FILE_NAME"]),
        size=count(record["_FILE_SIZE"], "_FILE_SIZE"),
        added=count(record["_NUM_ADDED_FILES"], "_NUM_ADDED_FILES"),
        deleted=count(record["_NUM_DELETED_FILES"], "_NUM_DELETED_FILES"),
    )


def digest_of(content: bytes, meta: ManifestMeta, *, file: str, small: int) -> Digest:
    """Return the sums of a manifest's files. A file of fewer bytes than `small` is small.

    Raises CorruptMetadataError, also where the manifest has other entries than its list says, and NewerVersionError.
    """
    try:
        _require_whole(content, meta.size)
        sums = _Sums(file, small)
        sums.add(opened(content))
        return sums.digest(meta)
    except MALFORMED as wrong:
        raise corrupt(file, "manifest", wrong) from wrong


class _Sums:
    """One pass over a manifest."""

    def __init__(self, file: str, small: int) -> None:
        self._file, self._small = file, small
        self._tallies: dict[Key, list[int]] = {}
        self._added: set[Key] = set()
        self._kinds = [0, 0]
        self._external = 0
        self._has_row_ids = False
        self._unknown: set[str] = set()
        self._created: dict[bytes, int] = {}

    def add(self, container: Container) -> None:
        tallies, small_below, kinds, created = self._tallies, self._small, self._kinds, self._created
        newer: tuple[set[str], set[str]] | None = None
        for record in container.records():
            file, kind = record["_FILE"], record["_KIND"]
            if newer is None:  # all records of a container have the fields of its schema
                newer = (record.keys() - _ENTRY, file.keys() - _FILE)
            if newer[0] or newer[1]:
                self._unknown.update(_with_values(record, newer[0]), _with_values(file, newer[1]))
            size, rows, level = file["_FILE_SIZE"], file["_ROW_COUNT"], file["_LEVEL"]
            if record["_VERSION"] != NEWEST:
                require_known(self._file, "manifest", count(record["_VERSION"]), NEWEST)
            if size < 0 or rows < 0 or kind not in (_ADD, _DELETE):
                raise DamagedError(f"it has an entry of kind {kind} with {size} bytes and {rows} rows")
            key = (record["_PARTITION"], record["_BUCKET"], level)
            tally = tallies.get(key)
            if tally is None:
                tally = tallies[_checked(key)] = [0, 0, 0, 0]
                if len(tallies) > MOST:
                    raise DamagedError(f"it has files in more than {MOST} levels of buckets")
            sign = 1 if kind == _ADD else -1
            kinds[kind] += 1
            tally[0] += sign
            tally[1] += sign * size
            tally[2] += sign * rows
            if size < small_below:
                tally[3] += sign
            if kind == _ADD:
                self._added.add(key)
                at = file.get("_CREATION_TIME")
                if at is not None and at > created.get(key[0], 0):
                    created[key[0]] = at
            if file.get("_EXTERNAL_PATH"):
                self._external += sign
            if file.get("_FIRST_ROW_ID") is not None:
                self._has_row_ids = True

    def digest(self, meta: ManifestMeta) -> Digest:
        if self._kinds != [meta.added, meta.deleted]:
            added, deleted = self._kinds
            raise DamagedError(
                f"it adds {added} files and deletes {deleted}, and its list says {meta.added} and {meta.deleted}"
            )
        if not all(type(number) is int for tally in self._tallies.values() for number in tally):
            raise TypeError("sizes are not whole numbers")
        if not all(type(time) is int for time in self._created.values()):
            raise TypeError("times are not whole numbers")
        return Digest(
            tallies={key: Tally(*tally) for key, tally in self._tallies.items()},
            added=frozenset(self._added),
            external=self._external,
            has_row_ids=self._has_row_ids,
            unknown=frozenset(self._unknown),
            created=self._created,
        )


def _with_values(values: Mapping[str, Any], fields: set[str]) -> set[str]:
    """Return the fields with a value. A field without one says nothing."""
    return {key[:80] for key in fields if values[key] is not None}


def _checked(key: Key) -> Key:
    """Return a key as it is. Raises TypeError and DamagedError for what is none."""
    partition, bucket, level = key
    if type(partition) is not bytes or type(bucket) is not int or type(level) is not int:
        raise TypeError("a partition, bucket or level is of another type")
    if bucket < _LEAST_BUCKET or not 0 <= level < _MOST_LEVELS:
        raise DamagedError(f"it has a file in bucket {bucket} at level {level}")
    return key


# The data files that a manifest names, one by one. `_EXTRA_FILES` lie beside the data file (file indexes, changelogs of
# 0.9).


class NamedFile(NamedTuple):
    """One entry: whether it adds or deletes the file, the file's name, and the names of the files that go with it."""

    is_added: bool
    name: str
    extra: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names of the entry."""
        return (self.name, *self.extra)


def read_named_files(content: bytes, meta: ManifestMeta, *, file: str) -> Sequence[NamedFile]:
    """Return the entries of a manifest, in their order. Raises CorruptMetadataError, also where the manifest is not
    the one that its list describes or names a file outside of the table's folder. Raises NewerVersionError for a newer
    version, and for a field with a value that Lakewarden does not know: it may name a file.
    """
    try:
        _require_whole(content, meta.size)
        entries = [_named_file(record, file) for record in opened(content).records()]
        added = sum(entry.is_added for entry in entries)
        if (added, len(entries) - added) != (meta.added, meta.deleted):
            raise DamagedError(f"it has other entries than the {meta.added} and {meta.deleted} of its list")
    except MALFORMED as wrong:
        raise corrupt(file, "manifest", wrong) from wrong
    return entries


def _named_file(record: dict[str, Any], file: str) -> NamedFile:
    require_known(file, "manifest", count(record["_VERSION"], "_VERSION"), NEWEST)
    data_file, kind = record["_FILE"], record["_KIND"]
    if newer := _with_values(record, record.keys() - _ENTRY) | _with_values(data_file, data_file.keys() - _FILE):
        raise NewerVersionError(
            f"{file} has a field that Lakewarden does not know ({', '.join(sorted(newer))}), and it may name a file: "
            "upgrade Lakewarden"
        )
    if kind not in (0, 1):
        raise DamagedError(f"it has an entry of kind {kind}")
    if data_file.get("_EXTERNAL_PATH"):
        raise DamagedError("it has a file outside of the table's folder")
    return NamedFile(
        is_added=kind == 0,
        name=file_name(data_file["_FILE_NAME"]),
        extra=tuple(file_name(name) for name in data_file.get("_EXTRA_FILES") or ()),
    )


# Index manifests: deletion vectors, and what else lies in the folder `index`.
#
# Source: Paimon's table spec, "Manifest" and "Table index"; `org.apache.paimon.manifest.IndexManifestEntry` of 1.3.1
# and `pypaimon.manifest.index_manifest_file` of 2.1.0 for the names of the fields. A snapshot names one, which has all.

NEWEST_INDEX = 1
"""The newest version of an entry that is known."""

_FIELDS = frozenset(
    (
        "_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT",
        "_DELETIONS_VECTORS_RANGES", "_EXTERNAL_PATH",
    )
)  # fmt: skip
_ADD_INDEX = 0
_VECTORS = "DELETION_VECTORS"
_TYPES = frozenset((_VECTORS, "HASH"))


class IndexFiles(NamedTuple):
    """What an index manifest names: files with deletion vectors, the data files that have one, their deleted rows
    (None where the release did not count them), and the other index files.
    """

    vector_files: int = 0
    vectors: int = 0
    deleted_rows: int | None = 0
    others: int = 0


NO_INDEX = IndexFiles()


def read_index_manifest(content: bytes, *, file: str) -> IndexFiles:
    """Return what an index manifest names: it has all index files of its snapshot. Raises CorruptMetadataError and
    NewerVersionError.
    """
    try:
        return _index_files(_entries(opened(content).records(), file))
    except MALFORMED as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong


def read_index_names(content: bytes, *, file: str) -> tuple[str, ...]:
    """Return the names of the index files. Raises as `read_index_manifest` does, also for one that lies elsewhere."""
    try:
        entries = tuple(_entries(opened(content).records(), file))
        if any(entry.get("_EXTERNAL_PATH") for entry in entries):
            raise DamagedError("it has an index file outside of the table's folder")
        return tuple(file_name(entry["_FILE_NAME"]) for entry in entries)
    except MALFORMED as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong


def _entries(records: Iterable[dict[str, Any]], file: str) -> Iterator[dict[str, Any]]:
    for record in records:
        require_known(file, "index manifest", count(record["_VERSION"], "_VERSION"), NEWEST_INDEX)
        if newer := sorted(key[:80] for key in record.keys() - _FIELDS if record[key] is not None):
            raise _newer(file, f"the field {shown(newer[0])}")
        if record["_KIND"] != _ADD_INDEX:
            raise DamagedError("it has an entry that adds no index file")
        if record["_INDEX_TYPE"] not in _TYPES:
            raise _newer(file, f"an index of the type {shown(str(record['_INDEX_TYPE'])[:80])}")
        yield record


def _newer(file: str, what: str) -> NewerVersionError:
    return NewerVersionError(
        f"{file} is an index manifest with {what}, which Lakewarden does not know: upgrade Lakewarden, or write the "
        "table with an older release of Paimon"
    )


def _index_files(entries: Iterable[dict[str, Any]]) -> IndexFiles:
    files = vectors = others = 0
    deleted: int | None = 0
    for entry in entries:
        if entry["_INDEX_TYPE"] != _VECTORS:
            others += 1
            continue
        files += 1
        for vector in entry.get("_DELETIONS_VECTORS_RANGES") or ():
            vectors += 1
            rows = vector.get("_CARDINALITY")
            deleted = None if rows is None or deleted is None else deleted + count(rows, "_CARDINALITY")
    return IndexFiles(vector_files=files, vectors=vectors, deleted_rows=deleted, others=others)
