"""Every path that a plan names, whole, as Hudi makes it when it executes the plan (docs/hudi.md).

Plans name files by whole paths (cleans, rollbacks, clusterings), by names within a partition (compactions), or by both:
a whole path in place of a name leads wherever it says. Fields are those of Hudi's Avro records.
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
class Named:
    """A path that a plan reads, writes or deletes; of a `whole_folder` all that lies below. `home` is the table that
    the plan was made for, where the path tells.
    """

    path: str
    whole_folder: bool = False
    home: str | None = None


def named_by(action: Action, record: Mapping[str, Any], *, location: str, partitioned: bool) -> Iterator[Named]:
    """Yield every path that the plan of `action` names. Raises UnreadableError, or what taking a malformed record
    apart raises.
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


def _by_clean(record: Mapping[str, Any], location: str, *, partitioned: bool) -> Iterator[Named]:
    """Files are named whole, by the oldest version of the plan within their partition. Partitions are appended to the
    table's path; on a table without partitions, whose only one is `""`, they are not deleted
    (`CleanActionExecutor.clean`).
    """
    for partition, files in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        for one in files:
            yield _whole(one["filePath"], partition)
    for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items():
        for name in names:
            yield Named(path=in_folder(_folder(location, partition), name))
    for partition in record.get("partitionsToBeDeleted") or ():
        if partition or partitioned:
            yield Named(path=_folder(location, partition), whole_folder=True)


def _by_slices(slices: Any, location: str) -> Iterator[Named]:
    """Yield what slices are of, and the beginning of what is written for them: the id of the file group. The source
    that a bootstrapped slice still reads is judged like the rest: no plan chooses what we read with our rights.
    """
    for one in slices:
        partition = one.get("partitionPath") or ""
        folder = _folder(location, partition)
        for path in (one.get("dataFilePath"), one.get("bootstrapFilePath"), *(one.get("deltaFilePaths") or ())):
            if path:
                yield _whole(path, partition) if _stands_alone(path) else Named(path=in_folder(folder, path))
        yield from _written(folder, one.get("fileId"), one.get("baseInstantTime"))


def _by_commit(record: Mapping[str, Any], location: str) -> Iterator[Named]:
    """Yield what a write that is under way says that it writes: paths begin at the table."""
    for partition, stats in (record.get("partitionToWriteStats") or {}).items():
        folder = _folder(location, partition)
        for stat in stats:
            if stat.get("path"):
                yield Named(path=in_folder(location, stat["path"]))
            yield from _written(folder, stat.get("fileId"), stat.get("prevCommit"))


def _by_rollback(record: Mapping[str, Any], location: str) -> Iterator[Named]:
    """Files are deleted by whole paths; a rollback block is appended to a log of the file group that is named
    (`BaseRollbackHelper`).
    """
    for request in record.get("RollbackRequests") or ():
        partition = request.get("partitionPath") or ""
        folder = _folder(location, partition)
        for path in request.get("filesToBeDeleted") or ():
            yield _whole(path, partition)
        for path in request.get("logBlocksToBeDeleted") or ():
            yield _whole(path, partition) if _stands_alone(path) else Named(path=in_folder(folder, path))
        yield from _written(folder, request.get("fileId"), request.get("latestBaseInstant"))


def _written(folder: str, file_id: str | None, instant: str | None) -> Iterator[Named]:
    if file_id:
        yield Named(path=in_folder(folder, f"{file_id}_{instant or ''}"))


def _folder(location: str, partition: str) -> str:
    """Return a partition's folder. One slash in front of it is dropped (`FSUtils.constructAbsolutePath`)."""
    below = partition.removeprefix("/")
    return below if below.startswith("/") else f"{location}/{below}"


def in_folder(folder: str, name: str) -> str:
    """Return a file's path: a name that is a path of its own leads there, whatever the folder (`StoragePath`)."""
    return name if _stands_alone(name) else f"{folder}/{name}"


def _stands_alone(path: str) -> bool:
    return path.startswith("/") or _WITH_SCHEME.match(path) is not None


def _whole(path: Any, partition: str) -> Named:
    if not isinstance(path, str):
        raise UnreadableError("it names a file without its path")
    folder, _, _ = path.rpartition("/")
    below = f"/{partition.strip('/')}" if partition else ""
    return Named(path=path, home=folder.removesuffix(below) if folder.endswith(below) else None)
