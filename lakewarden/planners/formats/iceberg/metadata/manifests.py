"""Manifest lists and manifests: the files of a snapshot, in the terms of Iceberg's table spec.

Both are Avro files that carry their whole schema. They never change after they were written.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from lakewarden.planners.decoding.avro import Container as AvroContainer
from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.damage import DamagedError, OversizedError
from lakewarden.planners.decoding.inflating import UnknownCodecError
from lakewarden.planners.decoding.json_stream import count, long
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    PartitionField,
    UnusableFileError,
)
from lakewarden.planners.formats.iceberg.metadata.partitions import Partitions

_FILE_PATH = 2_147_483_546
"""The field id of a position delete file's column `file_path` (spec: reserved field ids)."""

SMALLER = (
    "Set commit.manifest.target-size-bytes to a smaller size (8 MiB by default), and have an engine write the "
    "manifests anew (CALL system.rewrite_manifests)"
)
"""The remedy for manifests of more content than Lakewarden reads."""

UNKNOWN = -1
"""The number of rows of a file that were not counted."""

_LONGEST_PATH = 8192
_LONGEST_FORMAT = 32


class FileContent(IntEnum):
    """The kind of content of a file (`data_file.content`)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class EntryStatus(IntEnum):
    """The state of a file in a manifest (`manifest_entry.status`)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One line of a manifest list. If `of_deletes`, its files hold deletes and no rows."""

    path: str
    length: int
    spec: int
    of_deletes: bool
    sequence: int
    added_by: int
    added: int | None
    existing: int | None
    deleted: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentFile:
    """A data or delete file, as one manifest lists it.

    `partition` is for people, and for comparing within one table: `day=2026-01-01/region=eu`, or `""` for a table
    without partitions. `snapshot` added the file, or removed it if its status is DELETED. `sequence` is its data
    sequence number. It is None if the file was deleted before it got one. `references` is the one data file that a
    delete file is for. It is known if the delete file says so, or if its bounds allow no other. `equality_ids` are the
    fields by which an equality delete file deletes.
    """

    path: str
    content: FileContent
    status: EntryStatus
    file_format: str
    spec: int
    partition: str
    size: int
    records: int
    snapshot: int
    sequence: int | None
    references: str | None = None
    equality_ids: tuple[int, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether the manifest's snapshots have the file."""
        return self.status is not EntryStatus.DELETED

    @property
    def is_deletion_vector(self) -> bool:
        """Whether the file is a deletion vector (format version 3)."""
        return self.content is FileContent.POSITION_DELETES and self.file_format == "PUFFIN"


class Origin(NamedTuple):
    """What the header of a file says. `is_list`: it is a manifest list. `parent`: the snapshot before that of the list,
    or None if the header does not say. `is_whole`: the file ends as such a file does, so its writer was not killed
    before.
    """

    is_list: bool
    parent: int | None
    is_whole: bool


def read_manifest_list(content: bytes, *, path: str, without: Container[str] = ()) -> tuple[Manifest, ...]:
    """Return the manifests of one snapshot. Leave out those with the paths in `without`. Raises
    CorruptMetadataError.
    """
    manifests, seen = list[Manifest](), set[str]()
    try:
        for record in _opened(content, path).records():
            name = _path(record["manifest_path"])
            if name in seen:
                raise CorruptMetadataError(f"{path} names {name} twice")
            seen.add(name)
            if name not in without:
                manifests.append(_manifest(record))
    except DamagedError as wrong:
        raise _unreadable(path, wrong) from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{path} is not a manifest list: {_short(wrong)}") from wrong
    return tuple(manifests)


def read_paths(content: bytes, path: str) -> Iterator[str]:
    """Yield the paths of the live files of the manifest at `path`, and nothing else. Raises what `read_manifest`
    raises.
    """
    try:
        for record in _opened(content, path).records():
            if EntryStatus(record["status"]) is not EntryStatus.DELETED:
                yield _path(record["data_file"]["file_path"])
    except DamagedError as wrong:
        raise _unreadable(path, wrong) from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{path} is not a manifest: {_short(wrong)}") from wrong


def origin_of(content: bytes, path: str) -> Origin:
    """Return what the header of a manifest or a manifest list says. Raises CorruptMetadataError."""
    container = _opened(content, path)
    fields = container.schema.written.get("fields", ()) if isinstance(container.schema.written, Mapping) else ()
    parent = container.about.get("parent-snapshot-id", b"").decode("ascii", "replace")
    return Origin(
        is_list=any(field.get("name") == "manifest_path" for field in fields),
        parent=int(parent) if parent.isascii() and parent.isdigit() else None,
        is_whole=content.endswith(container.sync),
    )


def read_manifest(
    content: bytes, manifest: Manifest, specs: Mapping[int, tuple[PartitionField, ...]]
) -> Iterator[ContentFile]:
    """Yield the files of a manifest, the deleted ones included. Raises CorruptMetadataError.

    A file that a manifest adds inherits the snapshot and the sequence number of the manifest (spec: inheritance).
    """
    container = _opened(content, manifest.path)
    try:
        partitions = Partitions(container.schema.written, specs.get(manifest.spec, ()))
        for record in container.records():
            yield _file(record, manifest, partitions.path(record["data_file"]["partition"]))
    except DamagedError as wrong:
        raise _unreadable(manifest.path, wrong) from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{manifest.path} is not a manifest: {_short(wrong)}") from wrong


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


def _short(wrong: Exception) -> str:
    """Return the text of an error, cut short. It may contain text of the file."""
    return repr(wrong)[:200]


def _unreadable(path: str, wrong: DamagedError) -> CorruptMetadataError:
    if isinstance(wrong, OversizedError):
        return UnusableFileError(f"{path} cannot be read: {wrong}. {SMALLER}")
    kind = UnusableFileError if isinstance(wrong, UnknownCodecError) else CorruptMetadataError
    return kind(f"{path} cannot be read: {wrong}")


def _opened(content: bytes, path: str) -> AvroContainer:
    try:
        return opened(content)
    except DamagedError as wrong:
        raise _unreadable(path, wrong) from wrong


def _manifest(record: Mapping[str, Any]) -> Manifest:
    return Manifest(
        path=_path(record["manifest_path"]),
        length=count(record["manifest_length"]),
        spec=long(record["partition_spec_id"]),
        of_deletes=record.get("content", 0) == 1,
        sequence=count(record.get("sequence_number") or 0),
        added_by=long(record.get("added_snapshot_id") or 0),
        added=_either(record, "added_files_count", "added_data_files_count"),
        existing=_either(record, "existing_files_count", "existing_data_files_count"),
        deleted=_either(record, "deleted_files_count", "deleted_data_files_count"),
    )


def _either(record: Mapping[str, Any], name: str, of_version_1: str) -> int | None:
    number = record.get(name, record.get(of_version_1))
    return None if number is None else count(number)


def _path(value: Any) -> str:
    """Return the path of a file. Its length must be one that a store can have."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH:
        raise TypeError("a path is missing, or far too long")
    return value


def _file(record: Mapping[str, Any], manifest: Manifest, partition: str) -> ContentFile:
    file, status = record["data_file"], EntryStatus(record["status"])
    sequence = record.get("sequence_number")
    if sequence is None and status is EntryStatus.ADDED:
        sequence = manifest.sequence
    return ContentFile(
        path=_path(file["file_path"]),
        content=FileContent(file.get("content") or 0),
        status=status,
        file_format=str(file["file_format"])[:_LONGEST_FORMAT].upper(),
        spec=manifest.spec,
        partition=partition,
        size=count(file["file_size_in_bytes"]),
        records=_records(file["record_count"]),
        snapshot=long(record.get("snapshot_id") or manifest.added_by),
        sequence=None if sequence is None else count(sequence),
        references=_referenced(file),
        equality_ids=tuple(long(field_id, "equality_ids") for field_id in file.get("equality_ids") or ()),
    )


def _records(value: Any) -> int:
    """Return how many rows a file has. Some imports of old tables write -1 if they do not know it."""
    return max(UNKNOWN, long(value, "record_count"))


def _referenced(file: Mapping[str, Any]) -> str | None:
    """Return the one data file that a position delete file is for (`ContentFileUtil.referencedDataFile`). Most writers
    of version 2 say it only by equal bounds of the column of paths. These bounds are never shortened.
    """
    if file.get("content") != FileContent.POSITION_DELETES:
        return None
    if file.get("referenced_data_file"):
        return str(file["referenced_data_file"])
    lower, upper = (_bound(file.get(key)) for key in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None


def _bound(bounds: Iterable[Mapping[str, Any]] | None) -> bytes | None:
    """Return the bound of the file paths of the deleted rows."""
    return next((bound["value"] for bound in bounds or () if bound["key"] == _FILE_PATH), None)
