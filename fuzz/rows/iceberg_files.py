"""A reader of Iceberg tables that knows nothing of Iceberg's code: it reads metadata, manifests and data files, and
applies the deletes as the table spec says.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from pyarrow import orc
from pyarrow import parquet as pq
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from fuzz.rows.contract import Rows

_DATA, _POSITIONS, _EQUALITY = 0, 1, 2
_DELETED = 2
_PATH, _POS = 2147483546, 2147483545
"""The ids of the columns of position deletes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveFile:
    """A data or delete file of a snapshot. `place` is its partition under its spec, None if the spec has none."""

    told: Mapping[str, Any]
    sequence: int
    spec: int
    place: str | None


def metadata_at(location: str) -> Mapping[str, Any]:
    """Return the metadata of a metadata file."""
    content = Path(local(location)).read_bytes()
    told: Mapping[str, Any] = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    return told


def local(location: str) -> str:
    """Return the path of a location on the local disk."""
    return re.sub(r"^file:/*", "/", location)


def rows_by_the_spec(metadata: Mapping[str, Any], snapshot: int | None = None) -> Rows:
    """Return the rows of the current snapshot by the current schema, or of another one by its own."""
    schema = metadata["current-schema-id"]
    if snapshot is None:
        snapshot = metadata.get("current-snapshot-id", -1)
    else:
        schema = next(one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot)["schema-id"]
    columns = [one["id"] for one in next(s for s in metadata["schemas"] if s["schema-id"] == schema)["fields"]]
    files = list(live_files(metadata, snapshot))
    gone = _deleted_positions(files)
    equal = [(one, _keys(one)) for one in files if one.told["content"] == _EQUALITY]
    found: Rows = Counter()
    for file in files:
        if file.told["content"] != _DATA:
            continue
        path = file.told["file_path"]
        deletes = [(ids, keys) for one, (ids, keys) in equal if _reaches(one, file)]
        for at, row in enumerate(_read(path, file.told["file_format"])):
            if any(at in places for sequence, places in gone[path] if sequence >= file.sequence):
                continue
            if not any(tuple(row.get(one) for one in ids) in keys for ids, keys in deletes):
                found[tuple(row.get(one) for one in columns)] += 1
    return found


def live_files(metadata: Mapping[str, Any], snapshot: int | None) -> Iterator[LiveFile]:
    """Yield the files of a snapshot."""
    told = next((one for one in metadata.get("snapshots", ()) if one["snapshot-id"] == snapshot), None)
    if told is None:
        return
    partitioned = {
        one["spec-id"]: any(field["transform"] != "void" for field in one["fields"])
        for one in metadata["partition-specs"]
    }
    for manifest in _avro(told["manifest-list"]):
        spec = manifest["partition_spec_id"]
        for entry in _avro(manifest["manifest_path"]):
            if entry["status"] == _DELETED:
                continue
            inherited = manifest.get("sequence_number", 0)
            sequence = entry.get("sequence_number")
            yield LiveFile(
                told={"content": _DATA, **entry["data_file"]},
                sequence=inherited if sequence is None else sequence,
                spec=spec,
                place=repr(entry["data_file"]["partition"]) if partitioned[spec] else None,
            )


def _avro(location: str) -> list[Any]:
    with Path(local(location)).open("rb") as content:
        return list(fastavro.reader(content))


def _reaches(delete: LiveFile, file: LiveFile) -> bool:
    here = delete.place is None or (delete.spec, delete.place) == (file.spec, file.place)
    return here and delete.sequence > file.sequence


def _keys(delete: LiveFile) -> tuple[tuple[int, ...], Collection[tuple[Any, ...]]]:
    ids = tuple(delete.told["equality_ids"])
    rows = _read(delete.told["file_path"], delete.told["file_format"])
    return ids, {tuple(row.get(one) for one in ids) for row in rows}


def _deleted_positions(files: list[LiveFile]) -> Mapping[str, list[tuple[int, set[int]]]]:
    """Return the deleted positions by data file, each with the sequence number of its delete file."""
    found: defaultdict[str, list[tuple[int, set[int]]]] = defaultdict(list)
    for one in files:
        if one.told["content"] != _POSITIONS:
            continue
        if one.told["file_format"] == "PUFFIN":
            content = Path(local(one.told["file_path"])).read_bytes()
            for vector in deletion_vectors_from_puffin_file(PuffinFile(content)):
                if vector.referenced_data_file == one.told["referenced_data_file"]:
                    found[vector.referenced_data_file].append((one.sequence, set(vector.to_vector().to_pylist())))
        else:
            for row in _read(one.told["file_path"], one.told["file_format"]):
                found[row[_PATH]].append((one.sequence, {row[_POS]}))
    return found


def _read(location: str, kind: str) -> list[dict[int, Any]]:
    """Return the rows of a file, each by the ids of its fields."""
    path = Path(local(location))
    if kind == "AVRO":
        with path.open("rb") as content:
            reader: Any = fastavro.reader(content)
            fields: Any = reader.writer_schema
            names = {field["name"]: field["field-id"] for field in fields["fields"]}
            return [{names[name]: value for name, value in row.items()} for row in reader]
    found = pq.ParquetFile(path).read() if kind == "PARQUET" else orc.read_table(path)
    key = b"PARQUET:field_id" if kind == "PARQUET" else b"iceberg.id"
    names = {field.name: int((field.metadata or {})[key]) for field in found.schema}
    return [{names[name]: value for name, value in row.items()} for row in found.to_pylist()]
