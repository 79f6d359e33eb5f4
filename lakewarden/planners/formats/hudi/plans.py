"""Pending plans, decoded: how much work they ask for, who made them, and which files they read or delete.

Field names are those of Hudi's Avro records `HoodieCompactionPlan`, `HoodieRequestedReplaceMetadata`,
`HoodieCleanerPlan`, `HoodieRollbackPlan` and `HoodieSavepointMetadata` (hudi-common/src/main/avro).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakewarden.planners.decoding.numbers import count
from lakewarden.planners.formats.hudi.payloads import UnreadableError
from lakewarden.planners.model.instant import PlanSize, RunId

RUN_KEY = "lakewarden.run"
"""The key of a plan's `extraMetadata` under which our runs sign. Clean plans cannot carry it: Hudi drops it."""

_LOG_BYTES = "TOTAL_LOG_FILES_SIZE"
_READ_MIB = "TOTAL_IO_READ_MB"
_FILE_ID = re.compile(r"\.?(.+?)_[^_]+(?:_.*|\.log\..*)")


class DataFile(NamedTuple):
    """A data file, named by its partition (`""` where the table has none) and its name."""

    partition: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A plan: the files it reads (of a clean: deletes), the partitions it deletes whole, its size and author."""

    files: frozenset[DataFile]
    size: PlanSize
    partitions: frozenset[str] = frozenset()
    author: RunId | None = None


def compaction_plan(record: Mapping[str, Any]) -> Plan:
    """Decode a plan of compaction or log compaction."""
    operations = _list(record, "operations")
    return Plan(
        files=frozenset(file for operation in operations for file in _slice_files(operation)),
        size=PlanSize(file_groups=len(operations), bytes=_total(operations, _LOG_BYTES)),
        author=_author(record),
    )


def clustering_plan(record: Mapping[str, Any]) -> Plan | None:
    """Decode a plan of clustering; None if the replacecommit is a write (insert_overwrite, delete_partition).

    Its metrics count log files in bytes, and base files only in whole MiB.
    """
    plan = record.get("clusteringPlan")
    if plan is None:
        return None
    groups = _list(plan, "inputGroups")
    slices = [one for group in groups for one in _list(group, "slices")]
    log_bytes, read_mib = _total(groups, _LOG_BYTES), _total(groups, _READ_MIB)
    return Plan(
        files=frozenset(file for one in slices for file in _slice_files(one)),
        size=PlanSize(
            file_groups=len(slices),
            bytes=None if log_bytes is None or read_mib is None else max(log_bytes, count(read_mib * 2**20, _READ_MIB)),
        ),
        author=_author(record),
    )


def clean_plan(record: Mapping[str, Any]) -> Plan:
    """Decode a plan of clean. It knows no sizes; the oldest plan version names files without their paths."""
    deleted = {
        DataFile(partition, _base_name(one["filePath"]))
        for partition, files in (record.get("filePathsToBeDeletedPerPartition") or {}).items()
        for one in files
    }
    deleted |= {
        DataFile(partition, _base_name(name))
        for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items()
        for name in names
    }
    groups = {(file.partition, _file_id(file.name)) for file in deleted}
    return Plan(
        files=frozenset(deleted),
        partitions=frozenset(record.get("partitionsToBeDeleted") or ()),
        size=PlanSize(file_groups=len(groups), bytes=None),
        author=_author(record),
    )


class RollbackTarget(NamedTuple):
    """What a rollback undoes: the instant's requested time, and Hudi's word for its action."""

    time: str
    action: str


def rollback_target(record: Mapping[str, Any]) -> RollbackTarget:
    """Return what a plan of rollback (`HoodieRollbackPlan`) undoes."""
    return instant_info(record["instantToRollback"])


def instant_info(record: Mapping[str, Any]) -> RollbackTarget:
    """Decode a `HoodieInstantInfo`, in which a rollback names what it undoes."""
    return RollbackTarget(time=str(record["commitTime"]), action=str(record["action"]))


def savepointed_files(record: Mapping[str, Any]) -> frozenset[DataFile]:
    """Return the files that a savepoint's metadata holds fast."""
    return frozenset(
        DataFile(partition, _base_name(name))
        for partition, held in (record.get("partitionMetadata") or {}).items()
        for name in held["savepointDataFile"]
    )


def _slice_files(one: Mapping[str, Any]) -> Iterable[DataFile]:
    paths = [one.get("dataFilePath"), *(one.get("deltaFilePaths") or ())]
    return (DataFile(one["partitionPath"] or "", _base_name(path)) for path in paths if path)


def _total(parts: Iterable[Mapping[str, Any]], metric: str) -> int | None:
    """Return the sum of one metric over all parts; None where a part has no metrics."""
    metrics = [part.get("metrics") for part in parts]
    if not all(metrics):
        return None
    return count(sum(count(one.get(metric, 0), metric) for one in metrics if one), metric)


def _author(record: Mapping[str, Any]) -> RunId | None:
    run = (record.get("extraMetadata") or {}).get(RUN_KEY)
    return None if run is None else RunId(run)


def _list(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise UnreadableError(f"it has no {key}")
    return value


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _file_id(name: str) -> str:
    """Return the file group's id of `<fileId>_<token>_<T>.parquet` or `.<fileId>_<T>.log.<n>_<token>`."""
    found = _FILE_ID.fullmatch(name)
    return name if found is None else found[1]
