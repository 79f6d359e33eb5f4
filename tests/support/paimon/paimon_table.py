"""A Paimon table of a filesystem catalog, written as its table spec says: schemas, snapshots, manifest lists and
manifests, without rows. It can do what no library offers here: compactions, deletion vectors, expiry and rollbacks.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastavro

from lakewarden.planners.model.clock import Clock, ManualClock

ADD, DELETE = 0, 1
BATCH = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class File:
    """A data file in partition `p`. `stated` is what its manifest says besides."""

    name: str
    p: int = 0
    bucket: int = 0
    level: int = 0
    size: int = 1000
    rows: int = 10
    stated: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """A manifest with its entries."""

    name: str
    size: int
    entries: tuple[tuple[int, File], ...]


@dataclass
class PaimonTable:
    """One table, partitioned by `p`. With `keyed` it has a primary key, and else it is an append table."""

    folder: Path
    clock: Clock = field(default_factory=ManualClock)
    keyed: bool = True
    options: dict[str, str] = field(default_factory=lambda: {"bucket": "1", "write-only": "true"})
    codec: str = "null"
    hinted: bool = True

    def __post_init__(self) -> None:
        """Create the table."""
        self.chance = random.Random(str(self.clock.now()))
        self.snapshots: dict[int, dict[str, Any]] = {}
        self.manifests: dict[int, tuple[ManifestFile, ...]] = {}
        self.newest = 0
        self.index: str | None = None
        self._files = self._schemas = 0
        for name in ("schema", "snapshot", "manifest"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.alter()

    def alter(self, **options: str) -> None:
        """Write a schema with these options, dashes and dots written as `_` and `__`."""
        self.options |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        schema = {
            "version": 3,
            "id": self._schemas,
            "fields": [
                {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
                {"id": 1, "name": "p", "type": "INT NOT NULL"},
            ],
            "highestFieldId": 1,
            "partitionKeys": ["p"],
            "primaryKeys": ["id", "p"] if self.keyed else [],
            "options": self.options,
            "timeMillis": self._now(),
        }
        (self.folder / "schema" / f"schema-{self._schemas}").write_text(json.dumps(schema))
        self._schemas += 1

    def file(self, p: int = 0, **other: Any) -> File:
        """Return a new file, which nothing knows yet."""
        self._files += 1
        return File(name=f"data-{self._files:08d}-0.parquet", p=p, **other)

    def append(self, *files: File, **other: Any) -> int:
        """Add files: by default one of level 0. Return the snapshot."""
        return self.commit([(ADD, one) for one in files or [self.file()]], **other)

    def compact(self, *, level: int = 5, p: int | None = None, **other: Any) -> int:
        """Rewrite every bucket, of one partition or of all, into one file of this level. Return the snapshot."""
        entries: list[tuple[int, File]] = []
        buckets: dict[tuple[int, int], list[File]] = {}
        for one in self.live():
            if p in (None, one.p):
                buckets.setdefault((one.p, one.bucket), []).append(one)
        for (where, bucket), files in buckets.items():
            new = self.file(
                where,
                bucket=bucket,
                level=level,
                size=sum(one.size for one in files),
                rows=sum(one.rows for one in files),
            )
            entries += [(DELETE, one) for one in files] + [(ADD, new)]
        return self.commit(entries, kind="COMPACT", **other)

    def upgrade(self, *, level: int = 5) -> int:
        """Move every file of level 0 to another level, without writing it anew. Return the snapshot."""
        moved = [one for one in self.live() if one.level == 0]
        entries = [entry for one in moved for entry in ((DELETE, one), (ADD, replace(one, level=level)))]
        return self.commit(entries, kind="COMPACT")

    def live(self, snapshot: int | None = None) -> list[File]:
        """Return the files of a snapshot: by default of the newest."""
        found: dict[tuple[str, int], File] = {}
        for manifest in self.manifests.get(snapshot or self.newest, ()):
            for kind, one in manifest.entries:
                if kind == ADD:
                    found[one.name, one.level] = one
                else:
                    del found[one.name, one.level]
        return list(found.values())

    def commit(
        self,
        entries: Sequence[tuple[int, File]],
        *,
        kind: str = "APPEND",
        user: str = "job",
        identifier: int = BATCH,
        merging: bool = False,
        stated: Mapping[str, Any] | None = None,
    ) -> int:
        """Commit a snapshot and return it. `merging` writes the manifests before it anew, as one."""
        before = self.manifests.get(self.newest, ())
        if merging and before:
            before = (self._manifest([(ADD, one) for one in self.live()]),)
        delta = (self._manifest(entries),) if entries else ()
        number = self.newest + 1
        self.manifests[number] = (*before, *delta)
        base_list, delta_list = self._list(before), self._list(delta)
        snapshot = {
            "version": 3,
            "id": number,
            "schemaId": self._schemas - 1,
            "baseManifestList": base_list.name,
            "baseManifestListSize": base_list.stat().st_size,
            "deltaManifestList": delta_list.name,
            "deltaManifestListSize": delta_list.stat().st_size,
            "changelogManifestList": None,
            "indexManifest": self.index,
            "commitUser": user,
            "commitIdentifier": identifier,
            "commitKind": kind,
            "timeMillis": self._now(),
            "logOffsets": {},
            "totalRecordCount": sum(one.rows for one in self.live(number)),
            "deltaRecordCount": sum(one.rows * (1 if kind == ADD else -1) for kind, one in entries),
            **(stated or {}),
        }
        self.snapshots[number] = {key: value for key, value in snapshot.items() if value is not None}
        self.snapshot_file(number).write_text(json.dumps(self.snapshots[number], indent=2))
        self.newest = number
        if self.hinted:
            (self.folder / "snapshot" / "LATEST").write_text(str(number))
        return number

    def snapshot_file(self, number: int | None = None) -> Path:
        """Return the file of a snapshot: by default of the newest."""
        return self.folder / "snapshot" / f"snapshot-{number or self.newest}"

    def manifest_file(self, one: ManifestFile) -> Path:
        """Return the file of a manifest."""
        return self.folder / "manifest" / one.name

    def delete_vectors(self, vectors: Mapping[str, int]) -> None:
        """Let the next snapshot have deletion vectors for these data files, with so many deleted rows each."""
        ranges = [{"f0": name, "f1": 1, "f2": 22, "_CARDINALITY": rows} for name, rows in vectors.items()]
        entry = {
            "_VERSION": 1,
            "_KIND": ADD,
            "_PARTITION": partition_row(0),
            "_BUCKET": 0,
            "_INDEX_TYPE": "DELETION_VECTORS",
            "_FILE_NAME": "index-1",
            "_FILE_SIZE": 100,
            "_ROW_COUNT": len(ranges),
            "_DELETIONS_VECTORS_RANGES": ranges,
        }
        self.index = self._named("index-manifest")
        (self.folder / "manifest" / self.index).write_bytes(self._avro(_INDEX, [entry]))

    def expire(self, first_kept: int) -> None:
        """Delete the snapshots before this one, and the lists and manifests that no other needs."""
        for number in [one for one in self.snapshots if one < first_kept]:
            self.snapshot_file(number).unlink(missing_ok=True)
            del self.snapshots[number], self.manifests[number]
        (self.folder / "snapshot" / "EARLIEST").write_text(str(first_kept))
        kept = {one.name for manifests in self.manifests.values() for one in manifests}
        kept |= {str(value) for one in self.snapshots.values() for value in one.values()}
        for path in (self.folder / "manifest").iterdir():
            if path.name not in kept:
                path.unlink()

    def roll_back(self, number: int) -> None:
        """Make an older snapshot the newest."""
        for later in [one for one in self.snapshots if one > number]:
            self.snapshot_file(later).unlink()
            del self.snapshots[later], self.manifests[later]
        self.newest = number
        (self.folder / "snapshot" / "LATEST").write_text(str(number))

    def tag(self, name: str, number: int | None = None) -> Path:
        """Tag a snapshot: by default the newest."""
        return self._put(f"tag/tag-{name}", self.snapshots[number or self.newest])

    def branch(self, name: str) -> Path:
        """Make a branch of the newest snapshot."""
        return self._put(f"branch/branch-{name}/snapshot/snapshot-{self.newest}", self.snapshots[self.newest])

    def consume(self, name: str, following: int) -> Path:
        """Let a consumer stand before a snapshot."""
        return self._put(f"consumer/consumer-{name}", {"nextSnapshot": following})

    def keep_changelog(self, number: int) -> Path:
        """Let the changelog of a snapshot outlive it."""
        return self._put(f"changelog/changelog-{number}", self.snapshots[number])

    def _put(self, path: str, content: Mapping[str, Any]) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
        return file

    def _manifest(self, entries: Iterable[tuple[int, File]]) -> ManifestFile:
        name, kept = self._named("manifest"), tuple(entries)
        content = self._avro(_ENTRY, [_record(kind, one) for kind, one in kept])
        (self.folder / "manifest" / name).write_bytes(content)
        return ManifestFile(name=name, size=len(content), entries=kept)

    def _list(self, manifests: Iterable[ManifestFile]) -> Path:
        path = self.folder / "manifest" / self._named("manifest-list")
        path.write_bytes(self._avro(_LIST, [_listed(one) for one in manifests]))
        return path

    def _named(self, what: str) -> str:
        return f"{what}-{self.chance.getrandbits(64):016x}-0"

    def _avro(self, schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bytes:
        written = io.BytesIO()
        fastavro.writer(written, fastavro.parse_schema(dict(schema)), records, codec=self.codec)
        return written.getvalue()

    def _now(self) -> int:
        return round(self.clock.now().timestamp() * 1000)


def partition_row(p: int) -> bytes:
    """Return the partition `p` as a binary row."""
    return (1).to_bytes(4, "big") + bytes(8) + p.to_bytes(8, "little")


_STATS = {"_MIN_VALUES": b"\0" * 12, "_MAX_VALUES": b"\0" * 12, "_NULL_COUNTS": [0]}


def _record(kind: int, one: File) -> dict[str, Any]:
    key = partition_row(one.p)
    return {
        "_VERSION": 2,
        "_KIND": kind,
        "_PARTITION": key,
        "_BUCKET": one.bucket,
        "_TOTAL_BUCKETS": 1,
        "_FILE": {
            "_FILE_NAME": one.name,
            "_FILE_SIZE": one.size,
            "_ROW_COUNT": one.rows,
            "_MIN_KEY": key,
            "_MAX_KEY": key,
            "_KEY_STATS": _STATS,
            "_VALUE_STATS": _STATS,
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 1,
            "_SCHEMA_ID": 0,
            "_LEVEL": one.level,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 0,
            "_DELETE_ROW_COUNT": 0,
            "_EMBEDDED_FILE_INDEX": None,
            "_FILE_SOURCE": 0,
            "_VALUE_STATS_COLS": None,
            "_EXTERNAL_PATH": None,
            "_FIRST_ROW_ID": None,
            "_NEWER": None,  # a field of a release to come
            **one.stated,
        },
    }


def _listed(one: ManifestFile) -> dict[str, Any]:
    return {
        "_VERSION": 2,
        "_FILE_NAME": one.name,
        "_FILE_SIZE": one.size,
        "_NUM_ADDED_FILES": sum(kind == ADD for kind, _ in one.entries),
        "_NUM_DELETED_FILES": sum(kind == DELETE for kind, _ in one.entries),
        "_PARTITION_STATS": _STATS,
        "_SCHEMA_ID": 0,
    }


def _of_type(kind: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name in names]


def _maybe(kind: Any, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": ["null", kind], "default": None} for name in names]


def _stats(name: str) -> dict[str, Any]:
    counts = ["null", {"type": "array", "items": ["null", "long"]}]
    fields = [*_of_type("bytes", "_MIN_VALUES", "_MAX_VALUES"), {"name": "_NULL_COUNTS", "type": counts}]
    return {"name": name, "type": {"type": "record", "name": f"record{name}", "fields": fields}}


_FILE = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        *_of_type("string", "_FILE_NAME"),
        *_of_type("long", "_FILE_SIZE", "_ROW_COUNT"),
        *_of_type("bytes", "_MIN_KEY", "_MAX_KEY"),
        _stats("_KEY_STATS"),
        _stats("_VALUE_STATS"),
        *_of_type("long", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID"),
        *_of_type("int", "_LEVEL"),
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
        *_maybe({"type": "long", "logicalType": "timestamp-millis"}, "_CREATION_TIME"),
        *_maybe("long", "_DELETE_ROW_COUNT"),
        *_maybe("bytes", "_EMBEDDED_FILE_INDEX"),
        *_maybe("int", "_FILE_SOURCE"),
        *_maybe({"type": "array", "items": "string"}, "_VALUE_STATS_COLS"),
        *_maybe("string", "_EXTERNAL_PATH"),
        *_maybe("long", "_FIRST_ROW_ID", "_NEWER"),
    ],
}
_ENTRY = {
    "type": "record",
    "name": "record",
    "fields": [
        *_of_type("int", "_VERSION", "_KIND"),
        *_of_type("bytes", "_PARTITION"),
        *_of_type("int", "_BUCKET", "_TOTAL_BUCKETS"),
        {"name": "_FILE", "type": _FILE},
    ],
}
_LIST = {
    "type": "record",
    "name": "record",
    "fields": [
        *_of_type("int", "_VERSION"),
        *_of_type("string", "_FILE_NAME"),
        *_of_type("long", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"),
        _stats("_PARTITION_STATS"),
        *_of_type("long", "_SCHEMA_ID"),
    ],
}
_VECTOR = {
    "type": "record",
    "name": "record_VECTOR",
    "fields": [*_of_type("string", "f0"), *_of_type("int", "f1", "f2"), *_maybe("long", "_CARDINALITY")],
}
_INDEX = {
    "type": "record",
    "name": "record",
    "fields": [
        *_of_type("int", "_VERSION", "_KIND"),
        *_of_type("bytes", "_PARTITION"),
        *_of_type("int", "_BUCKET"),
        *_of_type("string", "_INDEX_TYPE", "_FILE_NAME"),
        *_of_type("long", "_FILE_SIZE", "_ROW_COUNT"),
        *_maybe({"type": "array", "items": _VECTOR}, "_DELETIONS_VECTORS_RANGES"),
    ],
}
