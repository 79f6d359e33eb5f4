"""Every path that a plan names, completed as Hudi does it when it executes the plan (docs/hudi.md).

Plans name files by whole paths (cleans, rollbacks, clusterings), by names within a partition (compactions), or by both.
A whole path in the place of a name is taken as it is. Fields are those of Hudi's Avro records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.planners.formats.hudi.metadata.names import Action
from lakewarden.planners.formats.hudi.metadata.payloads import UnreadableError

_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPath:
    """A path that a plan reads, writes or deletes. With `whole_folder` it includes everything below it. `home` is the
    table for which the plan was made, if the path shows it.
    """

    path: str
    whole_folder: bool = False
    home: str | None = None


def named_by(action: Action, record: Mapping[str, Any], *, location: str, partitioned: bool) -> Iterator[NamedPath]:
    """Yield every path that the plan of `action` names. Raises UnreadableError, or what a malformed record raises when
    it is taken apart.
    """
    match action:
        case Action.CLEAN:
            yield from _by_clean(record, location, partitioned=partitioned)
        case Action.COMPACTION | Action.LOGCOMPACTION:
            yield from _by_slices(record.get("operations") or (), location)
        case Action.CLUSTERING | Action.REPLACECOMMIT:
            plan = record.get("clusteringPlan") or {}
            for group in plan.get("inputGroups") or ():
                yield from _by_slices(group.get("slices") or (), location)
            yield from _by_commit(record, location)
        case Action.COMMIT | Action.DELTACOMMIT:
            yield from _by_commit(record, location)
        case Action.ROLLBACK:
            yield from _by_rollback(record, location)
        case _:
            return


def _by_clean(record: Mapping[str, Any], location: str, *, partitioned: bool) -> Iterator[NamedPath]:
    """Files are named by whole paths; the oldest version of the plan names them within their partition. Partitions are
    appended to the table's path. On a table without partitions the only one is `""`, which is not deleted
    (`CleanActionExecutor.clean`).
    """
    for partition, files in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        for one in files:
            yield _whole(one["filePath"], partition)
    for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items():
        for name in names:
            yield NamedPath(path=in_folder(_folder(location, partition), name))
    for partition in record.get("partitionsToBeDeleted") or ():
        if partition or partitioned:
            yield NamedPath(path=_folder(location, partition), whole_folder=True)


def _by_slices(slices: Any, location: str) -> Iterator[NamedPath]:
    """Yield the files of slices, and the beginning of the files that are written for them: the id of the file group.
    The source of a bootstrapped slice is judged like the rest: no plan may choose what is read with Lakewarden's
    rights.
    """
    for one in slices:
        partition = one.get("partitionPath") or ""
        folder = _folder(location, partition)
        for path in (one.get("dataFilePath"), one.get("bootstrapFilePath"), *(one.get("deltaFilePaths") or ())):
            if path:
                yield _whole(path, partition) if _stands_alone(path) else NamedPath(path=in_folder(folder, path))
        yield from _written(folder, one.get("fileId"), one.get("baseInstantTime"))


def _by_commit(record: Mapping[str, Any], location: str) -> Iterator[NamedPath]:
    """Yield what a write in flight says that it writes. Its paths begin at the table."""
    for partition, stats in (record.get("partitionToWriteStats") or {}).items():
        folder = _folder(location, partition)
        for stat in stats:
            if stat.get("path"):
                yield NamedPath(path=in_folder(location, stat["path"]))
            yield from _written(folder, stat.get("fileId"), stat.get("prevCommit"))


def _by_rollback(record: Mapping[str, Any], location: str) -> Iterator[NamedPath]:
    """Files are deleted by whole paths. A rollback block is appended to a log of the file group that is named
    (`BaseRollbackHelper`).
    """
    for request in record.get("RollbackRequests") or ():
        partition = request.get("partitionPath") or ""
        folder = _folder(location, partition)
        for path in request.get("filesToBeDeleted") or ():
            yield _whole(path, partition)
        for path in request.get("logBlocksToBeDeleted") or ():
            yield _whole(path, partition) if _stands_alone(path) else NamedPath(path=in_folder(folder, path))
        yield from _written(folder, request.get("fileId"), request.get("latestBaseInstant"))


def _written(folder: str, file_id: str | None, instant: str | None) -> Iterator[NamedPath]:
    if file_id:
        yield NamedPath(path=in_folder(folder, f"{file_id}_{instant or ''}"))


def _folder(location: str, partition: str) -> str:
    """Return a partition's folder. One slash in front of it is dropped (`FSUtils.constructAbsolutePath`)."""
    below = partition.removeprefix("/")
    return below if below.startswith("/") else f"{location}/{below}"


def in_folder(folder: str, name: str) -> str:
    """Return a file's path. A name that is itself a path leads there, whatever the folder (`StoragePath`)."""
    return name if _stands_alone(name) else f"{folder}/{name}"


def _stands_alone(path: str) -> bool:
    return path.startswith("/") or _WITH_SCHEME.match(path) is not None


def _whole(path: Any, partition: str) -> NamedPath:
    if not isinstance(path, str):
        raise UnreadableError("it names a file without its path")
    folder, _, _ = path.rpartition("/")
    below = f"/{partition.strip('/')}" if partition else ""
    return NamedPath(path=path, home=folder.removesuffix(below) if folder.endswith(below) else None)
