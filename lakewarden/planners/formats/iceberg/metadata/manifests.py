"""Manifest lists and manifests: which files a snapshot has, in the terms of Iceberg's table spec.

Both are Avro files that carry their whole schema, and never change once they are written.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lakewarden.planners.decoding.avro import Container as AvroContainer
from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.numbers import count, long
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, PartitionField
from lakewarden.planners.formats.iceberg.metadata.partitions import partition_kinds, partition_path

_FILE_PATH = 2_147_483_546
"""The field id of a position delete file's column `file_path` (spec: reserved field ids)."""

_LONGEST_PATH = 8192
_LONGEST_FORMAT = 32


class Content(IntEnum):
    """What a content file holds (`data_file.content`)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class Status(IntEnum):
    """What a manifest says of a file (`manifest_entry.status`)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One line of a manifest list. `of_deletes`: its files hold deletes and no rows."""

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
    """A data or delete file, as one manifest knows it.

    `partition` is for people, and for comparing within one table: `day=2026-01-01/region=eu`, `""` for a table without.
    `snapshot` added it (or, if DELETED, removed it), and `sequence` is its data sequence number: None for one that was
    deleted before it was ever given one. `references` is the one data file that a delete file is for, if it says so, or
    if its bounds say that it names no other.
    """

    path: str
    content: Content
    status: Status
    file_format: str
    spec: int
    partition: str
    size: int
    records: int
    snapshot: int
    sequence: int | None
    references: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether the manifest's snapshots have it."""
        return self.status is not Status.DELETED

    @property
    def is_deletion_vector(self) -> bool:
        """Whether it is a deletion vector (format version 3)."""
        return self.content is Content.POSITION_DELETES and self.file_format == "PUFFIN"


def read_manifest_list(content: bytes, *, path: str, without: Container[str] = ()) -> tuple[Manifest, ...]:
    """Return the manifests of one snapshot, `without` those with these paths. Raises CorruptMetadataError."""
    found, seen = list[Manifest](), set[str]()
    try:
        for record in _opened(content, path).records():
            name = _path(record["manifest_path"])
            if name in seen:
                raise CorruptMetadataError(f"{path} names {name} twice")
            seen.add(name)
            if name not in without:
                found.append(_manifest(record))
    except DamagedError as wrong:
        raise CorruptMetadataError(f"{path} cannot be read: {wrong}") from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{path} is no manifest list: {_short(wrong)}") from wrong
    return tuple(found)


def read_paths(content: bytes, manifest: Manifest) -> Iterator[str]:
    """Yield the paths of the files that a manifest's snapshots have, and nothing else of them. Raises as
    `read_manifest` does.
    """
    try:
        for record in _opened(content, manifest.path).records():
            if Status(record["status"]) is not Status.DELETED:
                yield _path(record["data_file"]["file_path"])
    except DamagedError as wrong:
        raise CorruptMetadataError(f"{manifest.path} cannot be read: {wrong}") from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{manifest.path} is no manifest: {_short(wrong)}") from wrong


def read_manifest(
    content: bytes, manifest: Manifest, specs: Mapping[int, tuple[PartitionField, ...]]
) -> Iterator[ContentFile]:
    """Yield what a manifest says of its files, the deleted ones included. Raises CorruptMetadataError.

    A file that a manifest adds inherits the snapshot and the sequence number of the manifest (spec: inheritance).
    """
    container = _opened(content, manifest.path)
    fields, names = specs.get(manifest.spec, ()), dict[tuple[Any, ...], str]()
    try:
        kinds = partition_kinds(container.schema.written)
        for record in container.records():
            partition = record["data_file"]["partition"]
            name = names.get(values := tuple(partition.values()))
            if name is None:
                name = names[values] = partition_path(partition, fields, kinds)
            yield _file(record, manifest, name)
    except DamagedError as wrong:
        raise CorruptMetadataError(f"{manifest.path} cannot be read: {wrong}") from wrong
    except _MALFORMED as wrong:
        raise CorruptMetadataError(f"{manifest.path} is no manifest: {_short(wrong)}") from wrong


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


def _short(wrong: Exception) -> str:
    """Return an error in which a text of the file may stand."""
    return repr(wrong)[:200]


def _opened(content: bytes, path: str) -> AvroContainer:
    try:
        return opened(content)
    except DamagedError as wrong:
        raise CorruptMetadataError(f"{path} cannot be read: {wrong}") from wrong


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
    found = record.get(name, record.get(of_version_1))
    return None if found is None else count(found)


def _path(value: Any) -> str:
    """Return a text that names a file: of a length that a store may know."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH:
        raise TypeError("a path is missing, or far too long")
    return value


def _file(record: Mapping[str, Any], manifest: Manifest, partition: str) -> ContentFile:
    file, status = record["data_file"], Status(record["status"])
    sequence = record.get("sequence_number")
    if sequence is None and status is Status.ADDED:
        sequence = manifest.sequence
    return ContentFile(
        path=_path(file["file_path"]),
        content=Content(file.get("content", 0)),
        status=status,
        file_format=str(file["file_format"])[:_LONGEST_FORMAT].upper(),
        spec=manifest.spec,
        partition=partition,
        size=count(file["file_size_in_bytes"]),
        records=count(file["record_count"]),
        snapshot=long(record.get("snapshot_id") or manifest.added_by),
        sequence=None if sequence is None else count(sequence),
        references=_referenced(file),
    )


def _referenced(file: Mapping[str, Any]) -> str | None:
    """Return the one data file whose rows a position delete file deletes (`ContentFileUtil.referencedDataFile`): most
    writers of version 2 say it by equal bounds of the column of paths alone, which are never shortened.
    """
    if file.get("content", 0) != Content.POSITION_DELETES:
        return None
    if file.get("referenced_data_file"):
        return str(file["referenced_data_file"])
    lower, upper = (_bound(file.get(key)) for key in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None


def _bound(bounds: Iterable[Mapping[str, Any]] | None) -> bytes | None:
    """Return the bound of the deleted rows' file paths."""
    return next((one["value"] for one in bounds or () if one["key"] == _FILE_PATH), None)
