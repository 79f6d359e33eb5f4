"""Pending plans, decoded: how much work they ask for, who made them, and which files they read or delete.

Field names are those of Hudi's Avro records `HoodieCompactionPlan`, `HoodieRequestedReplaceMetadata`,
`HoodieCleanerPlan`, `HoodieRollbackPlan` and `HoodieSavepointMetadata` (hudi-common/src/main/avro).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lakewarden.planners.decoding.chunks import Part
from lakewarden.planners.decoding.json_stream import count, counted
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks, UnreadableError, first
from lakewarden.planners.model.instant import PlanSize, RunId

RUN_KEY = "lakewarden.run"
"""The key of a plan's `extraMetadata` with which Lakewarden's runs sign. Hudi drops it from plans of clean."""

GIVEN_UP_KEY = "lakewarden.given_up"
"""The key of a completed instant's `extraMetadata` which says that its plan was given up and changed nothing."""

LEFT_OUT_KEY = "lakewarden.left_out"
"""The key of a compaction's `extraMetadata` for the number of file groups of its plan that its commit leaves out."""

EMPTIED_KEY = "lakewarden.emptied"
"""The key of a clean plan's `extraMetadata` for the number of partitions that it would have deleted whole. Lakewarden
has changed the plan to name their files alone."""

_LOG_BYTES = "TOTAL_LOG_FILES_SIZE"
_READ_MIB = "TOTAL_IO_READ_MB"
_FILE_ID = re.compile(r"\.?(.+?)_[^_]+(?:_.*|\.log\..*)")


class DataFile(NamedTuple):
    """A data file, named by its partition (`""` if the table has none) and its name."""

    partition: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HudiPlan:
    """A plan: the files that it reads (a clean: deletes), the partitions that it deletes whole, how many it empties
    file by file, its size and its author.
    """

    files: frozenset[DataFile]
    size: PlanSize
    partitions: frozenset[str] = frozenset()
    emptied: int = 0
    author: RunId | None = None


def compaction_plan(record: Mapping[str, Any]) -> HudiPlan:
    """Decode a plan of compaction or log compaction."""
    operations = _list(record, "operations")
    return HudiPlan(
        files=frozenset(file for operation in operations for file in _slice_files(operation)),
        size=PlanSize(file_groups=len(operations), bytes=_total(operations, _LOG_BYTES)),
        author=author_of(record),
    )


def clustering_plan(record: Mapping[str, Any]) -> HudiPlan | None:
    """Decode a plan of clustering; None if the replacecommit is a write (insert_overwrite, delete_partition).

    Its metrics count log files in bytes, and base files only in whole MiB.
    """
    plan = record.get("clusteringPlan")
    if plan is None:
        return None
    groups = _list(plan, "inputGroups")
    slices = [file_slice for group in groups for file_slice in _list(group, "slices")]
    log_bytes, read_mib = _total(groups, _LOG_BYTES), _total(groups, _READ_MIB)
    return HudiPlan(
        files=frozenset(file for file_slice in slices for file in _slice_files(file_slice)),
        size=PlanSize(
            file_groups=len(slices),
            bytes=None if log_bytes is None or read_mib is None else max(log_bytes, count(read_mib * 2**20, _READ_MIB)),
        ),
        author=author_of(record),
    )


class Cleaned(NamedTuple):
    """How many files and file groups a plan of clean names, how many partitions it empties, and how many of these it
    deletes as whole folders. `author` is the run of Lakewarden that signed it.
    """

    files: int
    partitions: int
    file_groups: int
    folders: int
    author: RunId | None = None


def clean_plan(record: Mapping[str, Any]) -> HudiPlan:
    """Decode a plan of clean. It has no sizes. The oldest plan version names files without their paths."""
    deleted = {
        DataFile(partition, _base_name(file["filePath"]))
        for partition, files in (record.get("filePathsToBeDeletedPerPartition") or {}).items()
        for file in files
    }
    deleted |= {
        DataFile(partition, _base_name(name))
        for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items()
        for name in names
    }
    groups = set(map(file_group, deleted))
    return HudiPlan(
        files=frozenset(deleted),
        partitions=frozenset(record.get("partitionsToBeDeleted") or ()),
        emptied=_emptied(record),
        size=PlanSize(file_groups=len(groups), bytes=None),
        author=author_of(record),
    )


def retained(record: Mapping[str, Any]) -> str | None:
    """Return the oldest commit with files that a plan of clean leaves. None if it does not say."""
    earliest = record.get("earliestInstantToRetain")
    return (str(earliest.get("timestamp") or "") or None) if isinstance(earliest, Mapping) else None


def retained_by_clean(chunks: Chunks) -> str | None:
    """Return the oldest commit with files that a completed clean left. None if it does not say."""
    key = "earliestCommitToRetain"
    return str(first(chunks, key).get(key) or "") or None


def clean_size(chunks: Chunks) -> Cleaned:
    """Return how much a plan of clean deletes. Hudi names the files of a file group one after another, so a group is
    looked for in two successive pieces.
    """
    files = partitions = groups = folders = 0
    author: RunId | None = None
    before: set[tuple[str, str]] = set()
    for chunk in chunks:
        plan = clean_plan(chunk)
        here = set(map(file_group, plan.files))
        files, partitions, groups = (
            files + len(plan.files),
            partitions + len(plan.partitions) + plan.emptied,
            groups + len(here - before),
        )
        folders += len(plan.partitions)
        author = author or plan.author
        before = here
    return Cleaned(files=files, partitions=partitions, file_groups=groups, folders=folders, author=author)


def merged(chunks: Chunks, decode: Callable[[Mapping[str, Any]], HudiPlan | None]) -> HudiPlan | None:
    """Return a plan that comes in pieces, with all of its files."""
    files: set[DataFile] = set()
    partitions: set[str] = set()
    emptied = 0
    whole_plan: HudiPlan | None = None
    for chunk in chunks:
        plan, author = decode(chunk), author_of(chunk)
        if plan is not None:
            files |= plan.files
            partitions |= plan.partitions
            emptied += plan.emptied
            whole_plan = plan if whole_plan is None else replace(whole_plan, size=added(whole_plan.size, plan.size))
        if whole_plan is not None and author is not None:
            whole_plan = replace(whole_plan, author=author)
    if whole_plan is None:
        return None
    return replace(whole_plan, files=frozenset(files), partitions=frozenset(partitions), emptied=emptied)


def added(size: PlanSize, other: PlanSize) -> PlanSize:
    """Return the size of two parts of a plan. A file group that is in both counts twice."""
    return PlanSize(
        file_groups=_sum(size.file_groups, other.file_groups),
        bytes=_sum(size.bytes, other.bytes),
    )


def _sum(number: int | None, other: int | None) -> int | None:
    return None if number is None or other is None else number + other


class RollbackTarget(NamedTuple):
    """What a rollback undoes: the instant's requested time, and Hudi's word for its action."""

    time: str
    action: str


def planned_indexes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partitions of the metadata table that an indexing builds (`HoodieIndexPlan`)."""
    return tuple(str(info["metadataPartitionPath"]) for info in _list(record, "indexPartitionInfos"))


def rollback_target(record: Mapping[str, Any]) -> RollbackTarget:
    """Return what a plan of rollback (`HoodieRollbackPlan`) undoes."""
    return instant_info(record["instantToRollback"])


def instant_info(record: Mapping[str, Any]) -> RollbackTarget:
    """Decode a `HoodieInstantInfo`, in which a rollback names what it undoes."""
    return RollbackTarget(time=str(record["commitTime"]), action=str(record["action"]))


def savepointed_files(record: Mapping[str, Any]) -> frozenset[DataFile]:
    """Return the files that a savepoint's metadata holds."""
    return frozenset(
        DataFile(partition, _base_name(name))
        for partition, held in (record.get("partitionMetadata") or {}).items()
        for name in _list(held, "savepointDataFile")
    )


def _slice_files(file_slice: Mapping[str, Any]) -> Iterable[DataFile]:
    paths = [file_slice.get("dataFilePath"), *(file_slice.get("deltaFilePaths") or ())]
    if isinstance(file_slice, Part) and "partitionPath" not in file_slice:
        if any(paths):
            raise UnreadableError("one of its file slices has more files than Lakewarden reads")
        return ()
    return (DataFile(file_slice["partitionPath"] or "", _base_name(path)) for path in paths if path)


def _total(parts: Iterable[Mapping[str, Any]], metric: str) -> int | None:
    """Return the sum of one metric over all parts. None if a part has no metrics."""
    metrics = [part.get("metrics") for part in parts if "metrics" in part or not isinstance(part, Part)]
    if not all(metrics):
        return None
    return count(sum(count(part_metrics.get(metric, 0), metric) for part_metrics in metrics if part_metrics), metric)


def given_up(chunks: Chunks) -> bool:
    """Whether a completed instant is a plan of Lakewarden that was not executed."""
    return any(GIVEN_UP_KEY in (chunk.get("extraMetadata") or {}) for chunk in chunks)


def author_of(record: Mapping[str, Any]) -> RunId | None:
    """Return the run of Lakewarden that signed a plan."""
    run = (record.get("extraMetadata") or {}).get(RUN_KEY)
    return None if run is None else RunId(run)


def _emptied(record: Mapping[str, Any]) -> int:
    return counted((record.get("extraMetadata") or {}).get(EMPTIED_KEY, "0")) or 0


def _list(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key, [] if isinstance(record, Part) else None)
    if not isinstance(value, list):
        raise UnreadableError(f"it has no {key}")
    return value


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def file_group(file: DataFile) -> tuple[str, str]:
    """Return the partition and the id of a data file's group: `<id>_<token>_<T>.parquet`, `.<id>_<T>.log...`."""
    match = _FILE_ID.fullmatch(file.name)
    return file.partition, file.name if match is None else match[1]
