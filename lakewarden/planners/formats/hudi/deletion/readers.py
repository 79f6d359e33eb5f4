"""Incremental readers that are declared in a table's options: their positions, and what they still need.

A reader at a position reads what was committed after it: by requested time in layout 1, by completion time in layout 2
(`HoodieStreamSourceV1`, `HoodieStreamSourceV2`). Everything from the oldest unread commit on has to stay, files and
instants alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.metadata.payloads import UnreadableError
from lakewarden.planners.formats.hudi.options.service_options import CleanPolicy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, IncrementalReader
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Instant, Service, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, ReaderPosition
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration
from lakewarden.planners.storage.content import listed
from lakewarden.planners.storage.locations import canonical_location, is_in_catalog

LOOKED_AT = timedelta(minutes=1)
"""A reader moves on while the timeline does not change, so its position is read at least this often."""

_POSITION = re.compile(r"\d{14,17}", re.ASCII)
_BEGINNING = "00000000000000"
"""`HoodieSourceOffset.INIT_OFFSET`: nothing was read yet."""

_BATCH = re.compile(r"\d{1,18}", re.ASCII)
_OFFSET = ("offsetCommitTime", "commitTime")
"""Keys of `HoodieSourceOffset`: since 1.0, and before."""

_LARGEST = 2**20


def misread(table: Table, options: HudiTableOptions) -> str | None:
    """Return why the needs of the declared readers cannot be kept; None if they can."""
    clean = table.policies.get(Service.CLEAN)
    counted = None if clean is None else getattr(clean.options, "policy", None)
    if options.readers and counted is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        return "a clean by KEEP_LATEST_FILE_VERSIONS keeps no commit for a reader: let it count commits or hours"
    names = [reader.name for reader in options.readers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"two readers have the name {twice}"
    for reader in options.readers:
        place = reader.checkpoint or reader.position
        if place is not None and not is_in_catalog(table.location) and _store_of(place) != _store_of(table.location):
            return f"reader {reader.name} keeps its position in another store than the table's, which is not read"
    return None


def _store_of(location: str) -> str:
    scheme, separator, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def read_positions(
    readers: Iterable[IncrementalReader], timeline: Timeline, storage: Storage, *, now: datetime
) -> tuple[ReaderPosition, ...]:
    """Return the position of each reader. If a position cannot be read, it says why, and the reader needs
    everything.
    """
    commits = [i for i in timeline.instants if not i.pending and Action(i.action).completed_as in COMMITS]
    return tuple(_read(reader, commits, storage, now) for reader in readers)


def _read(reader: IncrementalReader, commits: Sequence[Instant], storage: Storage, now: datetime) -> ReaderPosition:
    if reader.longest_lag is not None:
        since = now - reader.longest_lag
        unread = [commit for commit in commits if (commit.completed_at or commit.requested_at) >= since]
        return _position(reader.name, f"{format_duration(reader.longest_lag)} back at most", commits, unread)
    try:
        at = _kept_in(reader, storage)
    except (LakewardenError, FileNotFoundError, DamagedError, ValueError) as error:
        return ReaderPosition(name=reader.name, unreadable=str(error) or type(error).__name__)
    unread = [commit for commit in commits if (commit.completed_time or commit.time) > at]
    return _position(reader.name, "the beginning" if at == _BEGINNING else at, commits, unread)


def _position(name: str, at: str, commits: Sequence[Instant], unread: Sequence[Instant]) -> ReaderPosition:
    """Return a position. A reader that has read everything needs the newest commit, which shows that."""
    needed = min((*unread, *commits[-1:]), key=lambda commit: commit.time, default=None)
    return ReaderPosition(
        name=name,
        at=at,
        behind=len(unread),
        unread_since=min((commit.completed_at or commit.requested_at for commit in unread), default=None),
        needs=None if needed is None else needed.time,
    )


def _kept_in(reader: IncrementalReader, storage: Storage) -> str:
    """Return the position that is kept in a checkpoint or a file. Raises what the storage raises, and ValueError."""
    if reader.checkpoint is not None:
        return _of_checkpoint(canonical_location(reader.checkpoint), storage)
    if reader.position is None:
        raise ValueError("it keeps its position nowhere")
    text = storage.read(canonical_location(reader.position), limit=_LARGEST).decode(errors="replace").strip()
    if _POSITION.fullmatch(text) is None:
        raise ValueError(f"{reader.position} holds no instant")
    return text


def _of_checkpoint(folder: str, storage: Storage) -> str:
    """Return the end of the last completed batch of a Structured Streaming query. `commits` names the batch, and
    `offsets` has its end. If a query has several sources, its slowest Hudi source counts.
    """
    batches = [entry.name for entry in storage.listing(f"{folder}/offsets") if _BATCH.fullmatch(entry.name)]
    if not batches:
        raise ValueError(f"{folder}/offsets holds no batch")
    done = [int(entry.name) for entry in listed(f"{folder}/commits", storage) if _BATCH.fullmatch(entry.name)]
    if not done:
        return _BEGINNING
    name = f"{folder}/offsets/{max(done)}"
    lines = storage.read(name, limit=_LARGEST).splitlines()
    positions = [
        at for at in map(_of_source, lines[2:]) if at is not None
    ]  # the version and the query's own settings come first
    if not positions:
        raise ValueError(f"{name} names no instant of a Hudi table")
    return min(positions)


def _of_source(line: bytes) -> str | None:
    if not line.startswith(b"{"):
        return None
    offset: Any = from_json(line)
    at = next((str(offset[key]) for key in _OFFSET if key in offset), None) if isinstance(offset, Mapping) else None
    return at if at is not None and _POSITION.fullmatch(at) else None


def needed_by(positions: Sequence[ReaderPosition]) -> ReaderPosition | None:
    """Return the reader that is furthest behind; None without any. Raises TemporaryError if one of them cannot be
    read: then its needs are not known.
    """
    for position in positions:
        if position.unreadable is not None:
            raise TemporaryError(f"the position of reader {position.name} cannot be read: {position.unreadable}")
    return min(
        (position for position in positions if position.needs is not None),
        key=lambda position: position.needs or "",
        default=None,
    )


def blockers(positions: Iterable[ReaderPosition]) -> Iterable[Blocker]:
    """Yield a blocker for each reader with a position that cannot be read."""
    for position in positions:
        if position.unreadable is not None:
            yield Blocker(
                services=frozenset({Service.CLEAN, Service.ARCHIVE}),
                code="reader_not_readable",
                reason=f"the position of reader {position.name} cannot be read: {position.unreadable}",
                remedy="correct the place of its position, or remove the reader from options.readers if it is gone",
            )


def notes(positions: Iterable[ReaderPosition]) -> Mapping[Service, tuple[str, ...]]:
    """Return the positions of the readers, which explain why so much stays."""
    lines = tuple(
        f"reader {position.name} is at {position.at}: {_unread(position.behind)} unread, and everything since "
        f"{position.needs} stays"
        for position in positions
        if position.needs is not None
    )
    return {Service.CLEAN: lines, Service.ARCHIVE: lines} if lines else {}


def _unread(commits: int) -> str:
    return "1 commit is" if commits == 1 else f"{commits} commits are"


# Every path that a plan names, completed as Hudi does it when it executes the plan (docs/hudi.md).
#
# Plans name files by whole paths (cleans, rollbacks, clusterings), by names within a partition (compactions), or by
# both. A whole path in the place of a name is taken as it is. Fields are those of Hudi's Avro records.

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
        for file in files:
            yield _whole(file["filePath"], partition)
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
    for file_slice in slices:
        partition = file_slice.get("partitionPath") or ""
        folder = _folder(location, partition)
        for path in (
            file_slice.get("dataFilePath"),
            file_slice.get("bootstrapFilePath"),
            *(file_slice.get("deltaFilePaths") or ()),
        ):
            if path:
                yield _whole(path, partition) if _stands_alone(path) else NamedPath(path=in_folder(folder, path))
        yield from _written(folder, file_slice.get("fileId"), file_slice.get("baseInstantTime"))


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
