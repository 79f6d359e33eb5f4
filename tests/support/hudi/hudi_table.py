"""A Hudi table's metadata, written as Hudi writes it, but without Hudi, for tests that read it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import fastavro

from lakewarden.planners.formats.hudi.metadata.timeline import instant_time
from lakewarden.planners.model.clock import ManualClock

_STRINGS = {"type": "map", "values": "string"}
_COMPACTION = {
    "type": "record", "name": "HoodieCompactionPlan", "fields": [
        {"name": "operations", "type": {"type": "array", "items": {
            "type": "record", "name": "HoodieCompactionOperation", "fields": [
                {"name": "deltaFilePaths", "type": {"type": "array", "items": "string"}},
                {"name": "dataFilePath", "type": ["null", "string"]},
                {"name": "partitionPath", "type": "string"},
                {"name": "metrics", "type": ["null", {"type": "map", "values": "double"}]},
            ]}}},
        {"name": "extraMetadata", "type": ["null", _STRINGS]},
    ],
}  # fmt: skip
CLEAN_PLAN = {
    "type": "record", "name": "HoodieCleanerPlan", "fields": [
        {"name": "filePathsToBeDeletedPerPartition", "type": {"type": "map", "values": {"type": "array", "items": {
            "type": "record", "name": "HoodieCleanFileInfo", "fields": [{"name": "filePath", "type": "string"}]}}}},
        {"name": "partitionsToBeDeleted", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip
_CLEAN = {
    "type": "record", "name": "HoodieCleanMetadata", "fields": [
        {"name": "lastCompletedCommitTimestamp", "type": "string"},
        {"name": "earliestCommitToRetain", "type": "string"},
    ],
}  # fmt: skip
_SAVEPOINT = {
    "type": "record", "name": "HoodieSavepointMetadata", "fields": [
        {"name": "savepointedBy", "type": "string"},
        {"name": "savepointedAt", "type": "long"},
        {"name": "comments", "type": "string"},
        {"name": "partitionMetadata", "type": {"type": "map", "values": {
            "type": "record", "name": "HoodieSavepointPartitionMetadata", "fields": [
                {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}}]}}},
    ],
}  # fmt: skip


_ROLLBACK_PLAN = {
    "type": "record", "name": "HoodieRollbackPlan", "fields": [
        {"name": "instantToRollback", "type": {"type": "record", "name": "HoodieInstantInfo", "fields": [
            {"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}]}},
    ],
}  # fmt: skip


def base_file(group: str, time: str, *, size: int = 1000, updates: int = 0) -> dict[str, Any]:
    """Return the write stat of a base file."""
    name = f"{group}_0-1-2_{time}.parquet"
    return {"fileId": group, "path": f"p/{name}", "fileSizeInBytes": size, "numUpdateWrites": updates, "numDeletes": 0}


def log_file(group: str, time: str, *, size: int = 100, updates: int = 1, deletes: int = 0) -> dict[str, Any]:
    """Return the write stat of a log file; `time` is its slice's in layout 1, its commit's in layout 2."""
    name = f".{group}_{time}.log.1_0-1-2"
    counts = {"numUpdateWrites": updates, "numDeletes": deletes}
    return {"fileId": group, "path": f"p/{name}", "fileSizeInBytes": size, **counts}


def commit_content(
    stats: Mapping[str, list[dict[str, Any]]],
    *,
    replaced: Mapping[str, list[str]] | None = None,
    operation: str = "UPSERT",
    run: str | None = None,
) -> bytes:
    """Return a commit's metadata, as JSON: its reading does not depend on the layout."""
    extra = {} if run is None else {"lakewarden.run": run}
    record = {"partitionToWriteStats": stats, "operationType": operation, "extraMetadata": extra}
    return json.dumps(record if replaced is None else {**record, "partitionToReplaceFileIds": replaced}).encode()


def avro(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """Encode one record as Hudi does: an object container file with its schema."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(dict(schema)), [record])
    return out.getvalue()


class HudiTable:
    """The `.hoodie` of one table, stamped by a clock that moves on by a second with every instant.

    Files and folders bear the clock's time, as if everything had been written when the instants say.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: int,
        clock: ManualClock,
        zone: tzinfo,
        kind: str = "MERGE_ON_READ",
        properties: Mapping[str, object] | None = None,
    ) -> None:
        self.properties = properties or {}
        self.folder, self.version, self.clock, self.zone = folder, version, clock, zone
        self.home = folder / ".hoodie"
        self.timeline = self.home / "timeline" if version >= 8 else self.home
        for part in (self.timeline, self.home / ".heartbeat", self.home / ".aux/.bootstrap/.fileids"):
            part.mkdir(parents=True, exist_ok=True)
        self.set_properties(kind=kind)
        for part in (self.home / ".aux/.bootstrap/.fileids", self.timeline):
            self._age(part)

    def set_properties(self, *, kind: str, name: str = "trips") -> None:
        """Write `hoodie.properties`, as creating or upgrading the table does."""
        values: dict[str, object] = {
            "hoodie.table.name": name,
            "hoodie.table.type": kind,
            "hoodie.table.version": self.version,
            "hoodie.timeline.layout.version": 2 if self.version >= 8 else 1,
            "hoodie.table.partition.fields": "part",
            f"hoodie.table.{'ordering.fields' if self.version >= 9 else 'precombine.field'}": "ts",
            **({"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"} if self.version >= 8 else {}),
            **self.properties,
        }
        text = "#written by a test\n" + "".join(f"{key}={value}\n" for key, value in values.items())
        (self.home / "hoodie.properties").write_text(text)
        self._age(self.home / "hoodie.properties")
        self._age(self.home)

    def next_time(self) -> str:
        """Let a second pass and return the time as an instant."""
        self.clock.advance(timedelta(seconds=1))
        return instant_time(self.clock.now(), self.zone)

    def begin_write(self, action: str = "deltacommit", *, heartbeat: bool = True) -> str:
        """Leave a write in flight."""
        time = self.next_time()
        if heartbeat:
            self.beat(time)
        self.put(f"{time}.{action}.requested")
        self.put(f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight")
        return time

    def commit_write(self, time: str, action: str = "deltacommit", content: bytes = b"{}") -> None:
        """Complete a write."""
        self.complete(time, action, content)

    def write(self, stats: Mapping[str, list[dict[str, Any]]], *, action: str = "deltacommit", **more: Any) -> str:
        """Commit a write of these write stats by partition."""
        time = self.begin_write(action)
        self.commit_write(time, action, commit_content(stats, **more))
        return time

    def roll_back(self, time: str, action: str = "deltacommit") -> str:
        """Roll back a write in flight. Its files are removed, and the rollback stays on the timeline."""
        rollback = self.next_time()
        plan = {"instantToRollback": {"commitTime": time, "action": action}}
        self.put(f"{rollback}.rollback.requested", avro(_ROLLBACK_PLAN, plan))
        for file in (*self.timeline.glob(f"{time}.*"), self.home / ".heartbeat" / time):
            file.unlink(missing_ok=True)
        self.complete(rollback, "rollback")
        return rollback

    def plan_compaction(self, *, run: str | None = None, files: Mapping[str, tuple[str, ...]] | None = None) -> str:
        """Plan to compact one file group per partition of `files` (base file and log files)."""
        operations = [
            {
                "dataFilePath": names[0],
                "deltaFilePaths": list(names[1:]),
                "partitionPath": partition,
                "metrics": {"TOTAL_LOG_FILES_SIZE": 100.0 * len(names[1:])},
            }
            for partition, names in (files or {"p0": ("a-0_0-1-2_20260101000000000.parquet",)}).items()
        ]
        time = self.next_time()
        extra = {} if run is None else {"lakewarden.run": run}
        content = avro(_COMPACTION, {"operations": operations, "extraMetadata": extra})
        self.put(f"{time}.compaction.requested", content)
        return time

    def plan_clean(
        self, *, files: Mapping[str, tuple[str, ...]] | None = None, partitions: tuple[str, ...] = ()
    ) -> str:
        """Plan to delete files, or whole partitions."""
        deleted = {
            partition: [{"filePath": f"file:{self.folder}/{partition}/{name}"} for name in names]
            for partition, names in (files or {}).items()
        }
        time = self.next_time()
        plan = {"filePathsToBeDeletedPerPartition": deleted, "partitionsToBeDeleted": list(partitions)}
        self.put(f"{time}.clean.requested", avro(CLEAN_PLAN, plan))
        return time

    def savepoint(
        self, time: str, files: Mapping[str, tuple[str, ...]] | None = None, *, by: str = "ann", comments: str = ""
    ) -> None:
        """Save what a commit shows."""
        held = {partition: {"savepointDataFile": list(names)} for partition, names in (files or {}).items()}
        at = int(self.clock.now().timestamp() * 1000)
        record = {"savepointedBy": by, "savepointedAt": at, "comments": comments, "partitionMetadata": held}
        self.put(f"{time}.savepoint.inflight")
        self.complete(time, "savepoint", avro(_SAVEPOINT, record))

    def start(self, time: str, action: str) -> None:
        """Begin to execute a plan."""
        self.beat(time)
        self.put(f"{time}.{action}.inflight")

    def complete(self, time: str, action: str, content: bytes = b"{}") -> None:
        """Complete an instant, under the name that its action is completed as."""
        ending = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
        self.clock.advance(timedelta(milliseconds=500))
        completed = f"_{instant_time(self.clock.now(), self.zone)}" if self.version >= 8 else ""
        self.put(f"{time}{completed}.{ending.get(action, action)}", content)
        (self.home / ".heartbeat" / time).unlink(missing_ok=True)

    def complete_clean(self, time: str, *, seen: str, retained: str = "") -> None:
        """Complete a clean that has looked at commits up to `seen` and retained those since `retained`."""
        metadata = {"lastCompletedCommitTimestamp": seen, "earliestCommitToRetain": retained}
        self.complete(time, "clean", avro(_CLEAN, metadata))

    def beat(self, time: str) -> None:
        """Renew an instant's heartbeat."""
        (self.home / ".heartbeat" / time).touch()
        self._age(self.home / ".heartbeat" / time)

    def fall_silent(self, time: str) -> None:
        """Remove an instant's heartbeat, as a client does whose commit has failed."""
        (self.home / ".heartbeat" / time).unlink()

    def remove(self, name: str) -> None:
        """Remove a file from the timeline."""
        (self.timeline / name).unlink()
        self._age(self.timeline)

    def put(self, name: str, content: bytes = b"") -> None:
        """Write a timeline file, a moment after whatever came before."""
        self.clock.advance(timedelta(milliseconds=10))
        (self.timeline / name).write_bytes(content)
        self._age(self.timeline / name)
        self._age(self.timeline)

    def _age(self, path: Path) -> None:
        now = self.clock.now().timestamp()
        os.utime(path, (now, now))


def moment(text: str) -> datetime:
    """Return an ISO time: `2026-03-01T12:00Z`."""
    return datetime.fromisoformat(text)
