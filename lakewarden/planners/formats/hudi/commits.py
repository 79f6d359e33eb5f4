"""What a completed commit wrote, from its metadata (`HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakewarden.planners.decoding.numbers import count
from lakewarden.planners.formats.hudi.plans import RUN_KEY
from lakewarden.planners.model.instant import RunId

_A_LOG = ".log."
_SAY_WHERE = frozenset(
    {"UPSERT", "UPSERT_PREPPED", "INSERT", "INSERT_PREPPED", "DELETE", "DELETE_PREPPED", "INSERT_OVERWRITE"}
)
"""Operations (`WriteOperationType`) that change no partition but those of their workload profile."""


class FileGroup(NamedTuple):
    """A file group, by its partition (`""` where the table has none) and its id."""

    partition: str
    id: str


class WrittenFile(NamedTuple):
    """A base file or log file that was written, with its size in bytes."""

    group: FileGroup
    name: str
    bytes: int

    @property
    def is_log(self) -> bool:
        """Whether it is a log file."""
        return _A_LOG in self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a commit wrote: per partition whether it changed rows that were there (or only added some), its files,
    and the file groups that it took out of the table. `author` is the run of ours that signed it.
    """

    partitions: Mapping[str, bool] = field(default_factory=dict)
    files: tuple[WrittenFile, ...] = ()
    replaced: tuple[FileGroup, ...] = ()
    operation: str | None = None
    author: RunId | None = None


def written(record: Mapping[str, Any] | None) -> Written:
    """Decode a completed commit. An empty file is a commit that wrote nothing, as Hudi reads it."""
    if record is None:
        return Written()
    stats = {_interned(p): found for p, found in (record.get("partitionToWriteStats") or {}).items()}
    replaced = {_interned(p): ids for p, ids in (record.get("partitionToReplaceFileIds") or {}).items()}
    run = (record.get("extraMetadata") or {}).get(RUN_KEY)
    return Written(
        partitions={p: p in replaced or any(map(_changed, stats.get(p, ()))) for p in (*stats, *replaced)},
        files=tuple(file for partition, found in stats.items() for file in _files(partition, found)),
        replaced=tuple(FileGroup(partition, _interned(one)) for partition, ids in replaced.items() for one in ids),
        operation=record.get("operationType"),
        author=None if run is None else RunId(run),
    )


def partitions_to_come(record: Mapping[str, Any] | None) -> frozenset[str] | None:
    """Return the partitions that a write in flight will write to, by the workload profile that Hudi keeps in its
    inflight file; None where that does not say it: before the profile is made, for a bulk insert, which has none, and
    for what replaces more than it writes (a deletion of partitions, an insert overwrite of the whole table).
    """
    if record is None or record.get("operationType") not in _SAY_WHERE:
        return None
    profile = record.get("partitionToWriteStats")
    return frozenset(map(_interned, profile)) if profile else None


def _changed(stat: Mapping[str, Any]) -> bool:
    return (stat.get("numUpdateWrites") or 0) > 0 or (stat.get("numDeletes") or 0) > 0


def _files(partition: str, stats: list[Mapping[str, Any]]) -> Iterator[WrittenFile]:
    for stat in stats:
        name = (stat.get("path") or "").rpartition("/")[2]
        if name:
            size = stat.get("fileSizeInBytes") or stat.get("totalWriteBytes") or 0
            yield WrittenFile(FileGroup(partition, _interned(stat["fileId"])), name, count(size, "a file's size"))


def _interned(text: str) -> str:
    """Return the one copy of a text that many commits repeat."""
    return sys.intern(str(text))
