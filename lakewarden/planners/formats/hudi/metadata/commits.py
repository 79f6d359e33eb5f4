"""What a completed commit wrote, from its metadata (`HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`)."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.planners.decoding.json_stream import count
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks
from lakewarden.planners.formats.hudi.metadata.plans import author_of
from lakewarden.planners.model.instant import RunId

_A_LOG = ".log."
_SAY_WHERE = frozenset(
    {"UPSERT", "UPSERT_PREPPED", "INSERT", "INSERT_PREPPED", "DELETE", "DELETE_PREPPED", "INSERT_OVERWRITE"}
)
"""Operations (`WriteOperationType`) that change no partition but those of their workload profile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFiles:
    """Files that a commit wrote, by columns: of each its file group and its size in bytes, and of a log file its name
    and the instant in that name (`.<file id>_<instant>.log.<n>_<token>`).

    Groups and names are hashes: a commit of 20,000 files takes half a megabyte, and as objects eight. Once in a million
    tables two of a million groups are taken for one, and then a count is off by one.
    """

    groups: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("q"))
    slices: list[str] = field(default_factory=list)

    def add(self, partition: str, file_id: str, name: str, size: int) -> None:
        """Add a file."""
        self.groups.append(hash((partition, file_id)))
        self.sizes.append(size)
        if _A_LOG in name:
            self.names.append(hash(name))
            self.slices.append(_interned(logged_at(name)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a commit wrote: per partition whether it changed existing rows (or only added some), its base files and log
    files, and the file groups that it removed from the table. `deletes`: it deleted rows. `author` is the run of
    Lakewarden that signed it.
    """

    partitions: Mapping[str, bool] = field(default_factory=dict)
    bases: WrittenFiles = field(default_factory=WrittenFiles)
    logs: WrittenFiles = field(default_factory=WrittenFiles)
    replaced: array[int] = field(default_factory=lambda: array("q"))
    operation: str | None = None
    deletes: bool = False
    author: RunId | None = None


def written(chunks: Chunks) -> Written:
    """Decode a completed commit. An empty file is a commit that wrote nothing, as Hudi reads it."""
    partitions: dict[str, bool] = {}
    bases, logs, replaced = WrittenFiles(), WrittenFiles(), array("q")
    operation, author, deletes = None, None, False
    for chunk in chunks:
        for partition, stats in (chunk.get("partitionToWriteStats") or {}).items():
            path = _interned(partition)
            partitions[path] = partitions.get(path, False) or any(map(_changed, stats))
            deletes = deletes or any(map(_deleted, stats))
            for file_id, name, size in _files(stats):
                (logs if _A_LOG in name else bases).add(path, file_id, name, size)
        for partition, ids in (chunk.get("partitionToReplaceFileIds") or {}).items():
            partitions[_interned(partition)] = True
            replaced.extend(hash((str(partition), str(file_id))) for file_id in ids)
        operation = operation or chunk.get("operationType")
        author = author or author_of(chunk)
    return Written(
        partitions=partitions,
        bases=bases,
        logs=logs,
        replaced=replaced,
        operation=operation,
        deletes=deletes,
        author=author,
    )


def partitions_to_come(chunks: Chunks) -> frozenset[str] | None:
    """Return the partitions that a write in flight will write to, by the workload profile that Hudi keeps in its
    inflight file. Return None if the file does not say it: before the profile is made, for a bulk insert, which has
    none, and for an operation that replaces more than it writes (a deletion of partitions, an insert overwrite of the
    whole table).
    """
    operation: str | None = None
    profile: set[str] = set()
    for chunk in chunks:
        operation = operation or chunk.get("operationType")
        profile.update(map(_interned, chunk.get("partitionToWriteStats") or ()))
    return frozenset(profile) if operation in _SAY_WHERE and profile else None


def logged_at(path: str) -> str:
    """Return the instant in a log file's name; an empty text for any other file."""
    name = path.rpartition("/")[2]
    return name.partition(_A_LOG)[0].rpartition("_")[2] if _A_LOG in name else ""


def _changed(stat: Mapping[str, Any]) -> bool:
    return (stat.get("numUpdateWrites") or 0) > 0 or _deleted(stat)


def _deleted(stat: Mapping[str, Any]) -> bool:
    return (stat.get("numDeletes") or 0) > 0


def _files(stats: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """Yield of each file its group's id, its name and its size in bytes."""
    for stat in stats:
        name = (stat.get("path") or "").rpartition("/")[2]
        if name:
            size = stat.get("fileSizeInBytes") or stat.get("totalWriteBytes") or 0
            yield str(stat["fileId"]), name, count(size, "a file's size")


def _interned(text: str) -> str:
    """Return the one copy of a text that occurs in many commits."""
    return sys.intern(str(text))
