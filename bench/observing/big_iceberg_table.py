"""The metadata of an Iceberg table with very many snapshots and files, written by its spec. The files do not exist."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro

from tests.support.iceberg.iceberg_table import _entry_schema, _list_schema

_ADDED, _EXISTING = 1, 0
_MERGED_AFTER = 100
_LARGE, _SMALL = 500 * 2**20, 2**20
_NEWEST = 50
"""One file in so many is of the newest commits, and small. Rewritten files have their target size."""
_WRITE = "0a1b2c3d-0000-4000-8000-000000000000"
_FIRST_ID = 2**60
_FIRST_AT = 1_760_000_000_000
_EVERY_MS = 60_000
_UUID = "5b0c0d50-4f0e-4f3a-9a59-3b4c3e1fd1a7"
_FIELD = {"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "p", "required": False, "type": "int"},
    ],
}
_ENTRIES = fastavro.parse_schema(_entry_schema(2, [_FIELD]))
_LISTS = fastavro.parse_schema(_list_schema(2))


def file_name(number: int) -> str:
    """Return the name of a data file, as writers of Iceberg name theirs."""
    return f"{number % 100_000:05d}-{number}-{_WRITE}-00001.parquet"


class BigIcebergTable:
    """A table of a Hadoop catalog. Each commit appends some files to a few partitions. Every hundred manifests are
    merged into one, as Iceberg's own appends do (`commit.manifest.min-count-to-merge`).
    """

    def __init__(self, folder: Path, *, snapshots: int, files: int, partitions: int) -> None:
        self.folder = folder
        self.snapshots = 0
        self._partitions = partitions
        self._per_commit = max(1, files // snapshots)
        self._small_from = snapshots - snapshots // _NEWEST
        self._merged: list[dict[str, Any]] = []
        self._young: list[dict[str, Any]] = []
        self._lines: list[str] = []
        self._version = 0
        self._metadata.mkdir(parents=True)
        for _ in range(snapshots):
            self._commit()
        self._save()

    def append(self) -> None:
        """Make one more commit."""
        self._commit()
        self._save()

    @property
    def files(self) -> int:
        """Return how many data files it has."""
        return self.snapshots * self._per_commit

    @property
    def metadata_file(self) -> Path:
        """Return the newest metadata file."""
        return self._metadata / f"v{self._version}.metadata.json"

    @property
    def _metadata(self) -> Path:
        return self.folder / "metadata"

    def _commit(self) -> None:
        number = self.snapshots
        self.snapshots += 1
        self._young.append(self._manifest(number, _ADDED, [number]))
        if len(self._young) == _MERGED_AFTER:
            self._merged.append(self._manifest(number, _EXISTING, range(number + 1 - _MERGED_AFTER, number + 1)))
            self._young = []
        listed = self._metadata / f"snap-{_FIRST_ID + number}-1-{_UUID}.avro"
        listed.write_bytes(_avro(_LISTS, [*self._young, *self._merged]))
        line = {
            "sequence-number": number + 1,
            "snapshot-id": _FIRST_ID + number,
            **({"parent-snapshot-id": _FIRST_ID + number - 1} if number else {}),
            "timestamp-ms": _FIRST_AT + _EVERY_MS * number,
            "summary": self._summary(number),
            "manifest-list": str(listed),
            "schema-id": 0,
        }
        self._lines.append(json.dumps(line, separators=(",", ":")))

    def _summary(self, number: int) -> dict[str, str]:
        total = (number + 1) * self._per_commit
        return {
            "operation": "append",
            "spark.app.id": "local-1760000000000",
            "added-data-files": str(self._per_commit),
            "added-records": str(1000 * self._per_commit),
            "added-files-size": str(_SMALL * self._per_commit),
            "changed-partition-count": str(min(self._per_commit, self._partitions)),
            "total-records": str(1000 * total),
            "total-files-size": str(_SMALL * total),
            "total-data-files": str(total),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
            "engine-version": "3.5.9",
            "app-id": "local-1760000000000",
            "engine-name": "spark",
            "iceberg-version": "Apache Iceberg 1.11.0 (commit 0123456789abcdef0123456789abcdef01234567)",
        }

    def _manifest(self, number: int, status: int, commits: Sequence[int]) -> dict[str, Any]:
        path = self._metadata / f"{number:08d}-{status}-m0.avro"
        about = {
            "schema": json.dumps(_SCHEMA),
            "partition-spec": json.dumps([_FIELD]),
            "partition-spec-id": "0",
            "format-version": "2",
            "content": "data",
        }
        content = _avro(_ENTRIES, self._entries(status, commits), about)
        path.write_bytes(content)
        files = self._per_commit * len(commits)
        return {
            "manifest_path": str(path),
            "manifest_length": len(content),
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": number + 1,
            "min_sequence_number": commits[0] + 1,
            "added_snapshot_id": _FIRST_ID + number,
            **{
                f"{word}_{what}_count": count * of
                for word, count in (("added", status), ("existing", 1 - status), ("deleted", 0))
                for what, of in (("files", files), ("rows", 1000 * files))
            },
        }

    def _entries(self, status: int, commits: Sequence[int]) -> Iterator[dict[str, Any]]:
        for commit in commits:
            size = _SMALL if commit >= self._small_from else _LARGE
            known = None if status == _ADDED else commit + 1
            for number in range(commit * self._per_commit, (commit + 1) * self._per_commit):
                p = number % self._partitions
                yield {
                    "status": status,
                    "snapshot_id": _FIRST_ID + commit,
                    "sequence_number": known,
                    "file_sequence_number": known,
                    "data_file": {
                        "content": 0,
                        "file_path": f"{self.folder}/data/p={p}/{file_name(number)}",
                        "file_format": "PARQUET",
                        "partition": {"p": p},
                        "record_count": 1000,
                        "file_size_in_bytes": size,
                    },
                }

    def _save(self) -> None:
        self._version += 1
        newest = _FIRST_ID + self.snapshots - 1
        at = _FIRST_AT + _EVERY_MS * (self.snapshots - 1)
        head = {
            "format-version": 2,
            "table-uuid": _UUID,
            "location": str(self.folder),
            "last-sequence-number": self.snapshots,
            "last-updated-ms": at,
            "last-column-id": 2,
            "current-schema-id": 0,
            "schemas": [_SCHEMA],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": [_FIELD]}],
            "last-partition-id": 1000,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {"owner": "bench"},
            "current-snapshot-id": newest,
            "refs": {"main": {"snapshot-id": newest, "type": "branch"}},
        }
        begin = json.dumps(head, separators=(",", ":")).removesuffix("}")
        log = ",".join(
            f'{{"timestamp-ms":{_FIRST_AT + _EVERY_MS * one},"snapshot-id":{_FIRST_ID + one}}}'
            for one in range(self.snapshots)
        )
        end = f'"statistics":[],"partition-statistics":[],"snapshot-log":[{log}],"metadata-log":[]}}'
        self.metadata_file.write_text(f'{begin},"snapshots":[{",".join(self._lines)}],{end}')
        (self._metadata / "version-hint.text").write_text(str(self._version))


def newest_version(folder: Path) -> Path:
    """Return the newest metadata file of a table, whichever process wrote it."""
    versions = (folder / "metadata").glob("v*.metadata.json")
    return max(versions, key=lambda path: int(path.name[1:].partition(".")[0]))


def _avro(schema: Any, records: Any, about: dict[str, str] | None = None) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, schema, records, codec="deflate", metadata=about, codec_compression_level=1)
    return written.getvalue()
