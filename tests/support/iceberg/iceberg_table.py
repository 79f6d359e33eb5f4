"""An Iceberg table of a Hadoop catalog, written as its table spec says: metadata, manifest lists and manifests, without
rows. It can do what no library offers: every format version, any summary, branches, rollbacks and half a table.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro

from lakewarden.planners.model.clock import Clock, ManualClock

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_EXISTING, _ADDED, _DELETED = 0, 1, 2
_FILE_PATH = 2_147_483_546


@dataclass(frozen=True, kw_only=True)
class File:
    """A content file in partition `p`; `bounds_name` and `references` both say which file a delete is for."""

    path: str
    p: int | None = 0
    size: int = 1000
    records: int = 10
    content: int = DATA
    format: str = "PARQUET"
    references: str | None = None
    bounds_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A manifest entry. Version 1 has no sequence numbers; None is inherited."""

    status: int
    snapshot: int
    sequence: int | None
    file: File


@dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """A manifest with what its list says of it."""

    path: Path
    spec: int
    content: int
    sequence: int
    snapshot: int
    entries: tuple[Entry, ...]


@dataclass
class Snapshot:
    """A snapshot's line in the metadata, and its manifests."""

    line: dict[str, Any]
    manifests: tuple[ManifestFile, ...]


@dataclass
class IcebergTable:
    """One table, partitioned by `p` unless it is told otherwise. Every change is one more metadata file."""

    folder: Path
    version: int = 2
    clock: Clock = field(default_factory=ManualClock)
    partitioned: bool = True
    compressed: bool = False
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the table."""
        self.chance = random.Random(str(self.clock.now()))
        self.uuid = str(UUID(int=self.chance.getrandbits(128), version=4))
        self.snapshots: dict[int, Snapshot] = {}
        self.refs: dict[str, dict[str, Any]] = {}
        self.current: int | None = None
        self.sequence = self.metadata_version = self._files = 0
        fields = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}] if self.partitioned else []
        self.specs: list[dict[str, Any]] = [{"spec-id": 0, "fields": fields}]
        self.schema = _SCHEMA
        self.metadata.mkdir(parents=True)
        self.save()

    @property
    def metadata(self) -> Path:
        """Return the folder of the metadata."""
        return self.folder / "metadata"

    @property
    def metadata_file(self) -> Path:
        """Return the newest metadata file."""
        return self.metadata / f"v{self.metadata_version}.{'gz.' if self.compressed else ''}metadata.json"

    def file(self, p: int | None = 0, **other: Any) -> File:
        """Return a new file, which nothing knows yet."""
        self._files += 1
        return File(path=f"{self.folder}/data/p={p}/{self._files:05d}-0-{self.uuid}-00001.parquet", p=p, **other)

    def append(self, *files: File, summary: Mapping[str, str] | None = None) -> int:
        """Add data files: by default one. Return the snapshot."""
        return self.commit("append", add=files or [self.file()], summary=summary)

    def rewrite(self, *, summary: Mapping[str, str] | None = None, p: int | None = 0) -> int:
        """Replace a partition's live data files, deletes included, by one. Return the snapshot."""
        old = [file for file in self.live() if file.p == p]
        records = sum(file.records for file in old if file.content == DATA)
        new = self.file(p, size=sum(file.size for file in old), records=records)
        return self.commit("replace", add=[new], remove=old, summary=summary, sequence=self.sequence)

    def live(self, snapshot: int | None = None) -> list[File]:
        """Return the files of a snapshot: by default of the current one."""
        snapshot = self.current if snapshot is None else snapshot
        manifests = () if snapshot is None else self.snapshots[snapshot].manifests
        return [entry.file for one in manifests for entry in one.entries if entry.status != _DELETED]

    def commit(
        self,
        operation: str,
        *,
        add: Sequence[File] = (),
        remove: Sequence[File] = (),
        summary: Mapping[str, str] | None = None,
        sequence: int | None = None,
        branch: str = "main",
        spec: int = 0,
        merging: bool = False,
    ) -> int:
        """Commit a snapshot to a branch and return it. `sequence` is that of the added files, if it is not a new one;
        `merging` writes all manifests anew, as one of each kind.
        """
        self.sequence += self.version > 1
        snapshot = self.chance.getrandbits(62)
        parent = self.refs.get(branch, {}).get("snapshot-id", self.current)
        kept = () if parent is None else self.snapshots[parent].manifests
        manifests = self._filtered(kept, {file.path for file in remove}, snapshot)
        for of_deletes in (False, True):
            added = [
                Entry(status=_ADDED, snapshot=snapshot, sequence=sequence, file=file)
                for file in add
                if (file.content != DATA) == of_deletes
            ]
            if added:
                manifests.append(self._manifest(added, snapshot, spec, of_deletes=of_deletes))
        if merging:
            manifests = self._merged(manifests, snapshot)
        self._committed(operation, snapshot, parent, manifests, self._summary(add, remove, summary or {}), branch)
        return snapshot

    def rewrite_manifests(self, *, summary: Mapping[str, str] | None = None) -> int:
        """Write the manifests anew and touch no file. Return the snapshot."""
        return self.commit("replace", summary=summary, merging=True)

    def expire(self, *snapshots: int) -> None:
        """Forget snapshots, and delete their manifest lists and the manifests that no other has."""
        for one in snapshots:
            Path(self.snapshots.pop(one).line["manifest-list"]).unlink()
        needed = {one.path for snapshot in self.snapshots.values() for one in snapshot.manifests}
        self.save()
        for path in self.metadata.glob("*-m*.avro"):
            if path not in needed:
                path.unlink()

    def roll_back(self, snapshot: int) -> None:
        """Make an older snapshot the current one."""
        self.current = self.refs["main"]["snapshot-id"] = snapshot
        self.save()

    def columns(self, **types: str) -> None:
        """Give columns other types, in the metadata alone."""
        fields = [{**one, "type": types.get(str(one["name"]), one["type"])} for one in _FIELDS]
        self.schema = {**_SCHEMA, "fields": fields}
        self.save()

    def save(self) -> None:
        """Write the metadata as its next version."""
        self.metadata_version += 1
        content = json.dumps(self._metadata()).encode()
        self.metadata_file.write_bytes(gzip.compress(content) if self.compressed else content)
        (self.metadata / "version-hint.text").write_text(str(self.metadata_version))

    def _filtered(self, kept: Iterable[ManifestFile], gone: set[str], snapshot: int) -> list[ManifestFile]:
        """Return manifests without the files that are gone: those that name one are written anew."""
        manifests = []
        for one in kept:
            if not any(entry.file.path in gone for entry in one.entries if entry.status != _DELETED):
                manifests.append(one)
                continue
            entries = [
                replace(entry, status=_DELETED, snapshot=snapshot)
                if entry.file.path in gone
                else replace(entry, status=_EXISTING)
                for entry in _assigned(one)
            ]
            manifests.append(self._manifest(entries, snapshot, one.spec, of_deletes=bool(one.content)))
        return manifests

    def _merged(self, manifests: Iterable[ManifestFile], snapshot: int) -> list[ManifestFile]:
        kinds: dict[tuple[int, int], list[Entry]] = {}
        for one in manifests:
            entries = (replace(entry, status=_EXISTING) for entry in _assigned(one))
            kinds.setdefault((one.spec, one.content), []).extend(entries)
        return [self._manifest(e, snapshot, spec, of_deletes=bool(content)) for (spec, content), e in kinds.items()]

    def _manifest(self, entries: Sequence[Entry], snapshot: int, spec: int, *, of_deletes: bool) -> ManifestFile:
        path = self.metadata / f"{self.chance.getrandbits(64):016x}-m0.avro"
        records = [self._record(entry, spec) for entry in entries]
        path.write_bytes(_avro(_entry_schema(self.version, self.specs[spec]["fields"]), records, self._about(spec)))
        content = int(of_deletes)
        return ManifestFile(
            path=path, spec=spec, content=content, sequence=self.sequence, snapshot=snapshot, entries=tuple(entries)
        )

    def _about(self, spec: int) -> dict[str, str]:
        return {
            "schema": json.dumps(_SCHEMA),
            "partition-spec": json.dumps(self.specs[spec]["fields"]),
            "partition-spec-id": str(spec),
            "format-version": str(self.version),
        }

    def _record(self, entry: Entry, spec: int) -> dict[str, Any]:
        file = entry.file
        name = None if file.bounds_name is None else file.bounds_name.encode()
        bounds = None if name is None else [{"key": _FILE_PATH, "value": name}]
        return {
            "status": entry.status,
            "snapshot_id": entry.snapshot if self.version == 1 or entry.status != _ADDED else None,
            "sequence_number": entry.sequence,
            "file_sequence_number": None,
            "data_file": {
                "content": file.content,
                "file_path": file.path,
                "file_format": file.format,
                "partition": {one["name"]: file.p for one in self.specs[spec]["fields"]},
                "record_count": file.records,
                "file_size_in_bytes": file.size,
                "block_size_in_bytes": 0,
                "lower_bounds": bounds,
                "upper_bounds": bounds,
                "equality_ids": [1] if file.content == EQUALITY_DELETES else None,
                "referenced_data_file": file.references,
            },
        }

    def _committed(
        self,
        operation: str,
        snapshot: int,
        parent: int | None,
        manifests: Sequence[ManifestFile],
        summary: Mapping[str, str],
        branch: str,
    ) -> None:
        path = self.metadata / f"snap-{snapshot}-1-{self.chance.getrandbits(64):016x}.avro"
        about = {"snapshot-id": str(snapshot), "parent-snapshot-id": "null" if parent is None else str(parent)}
        path.write_bytes(_avro(_list_schema(self.version), [_listed(one) for one in manifests], about))
        line = {
            "snapshot-id": snapshot,
            "timestamp-ms": round(self.clock.now().timestamp() * 1000),
            "summary": {"operation": operation, **summary},
            "manifest-list": str(path),
            "schema-id": 0,
        }
        if parent is not None:
            line["parent-snapshot-id"] = parent
        if self.version > 1:
            line["sequence-number"] = self.sequence
        self.snapshots[snapshot] = Snapshot(line, tuple(manifests))
        self.refs[branch] = {"snapshot-id": snapshot, "type": "branch"}
        if branch == "main":
            self.current = snapshot
        self.save()

    def _summary(self, add: Sequence[File], remove: Sequence[File], other: Mapping[str, str]) -> dict[str, str]:
        counts = {
            "added-data-files": sum(file.content == DATA for file in add),
            "deleted-data-files": sum(file.content == DATA for file in remove),
            "added-delete-files": sum(file.content != DATA for file in add),
            "removed-delete-files": sum(file.content != DATA for file in remove),
            "added-position-delete-files": sum(file.content == POSITION_DELETES for file in add),
            "added-equality-delete-files": sum(file.content == EQUALITY_DELETES for file in add),
        }
        return {**{key: str(count) for key, count in counts.items() if count}, **other}

    def _metadata(self) -> dict[str, Any]:
        raw: dict[str, Any] = {
            "format-version": self.version,
            "table-uuid": self.uuid,
            "location": str(self.folder),
            "last-updated-ms": round(self.clock.now().timestamp() * 1000),
            "last-column-id": 2,
            "schemas": [self.schema],
            "current-schema-id": 0,
            "schema": self.schema,
            "partition-specs": self.specs,
            "partition-spec": self.specs[0]["fields"],
            "default-spec-id": self.specs[-1]["spec-id"],
            "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": -1 if self.current is None else self.current,
            "snapshots": [one.line for one in self.snapshots.values()],
        }
        if self.version > 1:
            raw |= {"last-sequence-number": self.sequence, "refs": self.refs}
        return raw


_FIELDS: Sequence[Mapping[str, Any]] = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "p", "required": False, "type": "int"},
]
_SCHEMA: Mapping[str, Any] = {"type": "struct", "schema-id": 0, "fields": _FIELDS}


def _assigned(manifest: ManifestFile) -> list[Entry]:
    """Return a manifest's live entries with the sequence numbers that they inherit."""
    live = (entry for entry in manifest.entries if entry.status != _DELETED)
    return [replace(e, sequence=manifest.sequence if e.sequence is None else e.sequence) for e in live]


def _avro(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]], about: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(dict(schema)), records, metadata=dict(about))
    return written.getvalue()


def _optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _required(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def _entry_schema(version: int, partition: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    part = {
        "type": "record",
        "name": "r102",
        "fields": [_optional(one["name"], "int", one["field-id"]) for one in partition],
    }
    of_1 = [_required("block_size_in_bytes", "long", 105)] if version == 1 else []
    of_2 = [_required("content", "int", 134)] if version > 1 else []
    later = [
        _optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
        _optional("referenced_data_file", "string", 143),
    ]
    data_file = {
        "type": "record",
        "name": "r2",
        "fields": [
            *of_2,
            _required("file_path", "string", 100),
            _required("file_format", "string", 101),
            _required("partition", part, 102),
            _required("record_count", "long", 103),
            _required("file_size_in_bytes", "long", 104),
            *of_1,
            _optional("lower_bounds", _bounds("k126_v127", 126, 127), 125),
            _optional("upper_bounds", _bounds("k129_v130", 129, 130), 128),
            *(later if version > 1 else []),
        ],
    }
    sequences = [_optional("sequence_number", "long", 3), _optional("file_sequence_number", "long", 4)]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _required("status", "int", 0),
            _optional("snapshot_id", "long", 1),
            *(sequences if version > 1 else []),
            _required("data_file", data_file, 2),
        ],
    }


def _bounds(name: str, key: int, value: int) -> dict[str, Any]:
    fields = [_required("key", "int", key), _required("value", "bytes", value)]
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": fields}}


def _listed(one: ManifestFile) -> dict[str, Any]:
    counts = {status: sum(entry.status == status for entry in one.entries) for status in (_EXISTING, _ADDED, _DELETED)}
    return {
        "manifest_path": str(one.path),
        "manifest_length": one.path.stat().st_size,
        "partition_spec_id": one.spec,
        "content": one.content,
        "sequence_number": one.sequence,
        "min_sequence_number": 0,
        "added_snapshot_id": one.snapshot,
        **{f"{word}_files_count": counts[status] for word, status in _COUNTED.items()},
        **{f"{word}_data_files_count": counts[status] for word, status in _COUNTED.items()},
        **{f"{word}_rows_count": 0 for word in _COUNTED},
    }


_COUNTED = {"added": _ADDED, "existing": _EXISTING, "deleted": _DELETED}


def _list_schema(version: int) -> dict[str, Any]:
    of_2 = [
        _required("content", "int", 517),
        _required("sequence_number", "long", 515),
        _required("min_sequence_number", "long", 516),
    ]
    word = "files" if version > 1 else "data_files"
    return {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            _required("manifest_path", "string", 500),
            _required("manifest_length", "long", 501),
            _required("partition_spec_id", "int", 502),
            *(of_2 if version > 1 else []),
            _required("added_snapshot_id", "long", 503),
            *(_required(f"{one}_{word}_count", "int", at) for at, one in enumerate(_COUNTED, start=504)),
            *(_required(f"{one}_rows_count", "long", at) for at, one in enumerate(_COUNTED, start=512)),
        ],
    }
