"""The archived timeline of table versions 8 and 9: parquet files, and the manifest that lists them.

    <timeline>/history/_version_                    the number of the newest manifest, as text
    <timeline>/history/manifest_<n>                 JSON: {"files": [{"fileName": ..., "fileLen": ...}]}
    <timeline>/history/<min>_<max>_<level>.parquet  one row for each completed instant requested from min to max

A manifest is never changed. A merge writes a new file and a new manifest. Files that only older manifests list are
deleted after two more of them. Source: `LSMTimeline`, `HoodieLSMTimelineManifest` and `HoodieLSMTimelineInstant` of
Hudi 1.x; files that Hudi 1.x wrote were read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.locations import canonical_location

_NAME = re.compile(r"\d{14,23}_(\d{14,23})_\d\.parquet", re.ASCII)
_TIME = re.compile(r"\d{14,23}", re.ASCII)
_VERSION = re.compile(r"\d{1,10}", re.ASCII)

_LARGEST_MANIFEST = 16 * 2**20
_MOST_ROWS = 1_000_000
_LONGEST_ACTION = 40
_COLUMNS = ["instantTime", "completionTime", "action"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryFile:
    """A file of the archive: its name, its size in bytes, and the last requested time in it."""

    name: str
    size: int
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Archived:
    """An archived instant. All of them are completed."""

    time: str
    completed_time: str | None
    action: str


def history_files(folder: str, storage: Storage) -> Sequence[HistoryFile]:
    """Return the files of the newest manifest; none if nothing was archived yet.

    Raises PermanentError if the manifest makes no sense. Raises FileNotFoundError if it is gone.
    """
    try:
        version = storage.read(f"{folder}/_version_", limit=64).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ()
    if _VERSION.fullmatch(version) is None:
        raise PermanentError(
            f"{folder}/_version_ holds {shown(version)}, which is not a number: the archive is damaged"
        )
    path = f"{folder}/manifest_{version}"
    try:
        listed = from_json(storage.read(path, limit=_LARGEST_MANIFEST))["files"]
        return tuple(_file(entry) for entry in listed)
    except (DamagedError, *MALFORMED) as error:
        raise PermanentError(f"{path} is not a manifest of an archive: {shown(str(error))}") from error


def _file(entry: Mapping[str, Any]) -> HistoryFile:
    name, size = entry["fileName"], entry["fileLen"]
    match = _NAME.fullmatch(name)
    if match is None or not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"{name} with {size} bytes is not a file of an archive")
    return HistoryFile(name=name, size=size, last=match[1])


def history_folder(properties: TableProperties) -> str:
    """Return the folder of a table's archive. Raises PermanentError if it lies outside the table's timeline."""
    timeline = properties.timeline_folder
    folder = f"{timeline}/{properties.history}"
    if not properties.history or canonical_location(folder) != f"{canonical_location(timeline)}/{properties.history}":
        raise PermanentError(
            f"the archive {shown(folder)} lies outside its timeline: set hoodie.timeline.history.path to a folder in it"
        )
    return folder


def read_history(folder: str, file: HistoryFile, storage: Storage) -> Sequence[Archived]:
    """Return the instants of a file. Their metadata, which is large, is not read.

    Raises PermanentError if it is damaged. Raises what the storage raises.
    """
    import pyarrow as pa  # noqa: PLC0415 - few tables need it
    from pyarrow import parquet  # noqa: PLC0415 - few tables need it

    path = f"{folder}/{file.name}"
    source = _Ranges(path, file.size, storage)
    try:
        opened = parquet.ParquetFile(source)
        if opened.metadata.num_rows > _MOST_ROWS:
            raise PermanentError(f"{path} has more than {_MOST_ROWS} instants, which Lakewarden does not read")
        batches = opened.iter_batches(batch_size=256, columns=_COLUMNS, use_threads=False)
        return tuple(instant for batch in batches for instant in _instants(batch.to_pylist()))
    except (pa.ArrowException, *MALFORMED) as error:
        if source.failure is not None:
            raise source.failure from error
        raise PermanentError(f"{path} is damaged: {shown(str(error))}") from error


def _instants(rows: Sequence[Mapping[str, Any]]) -> Iterator[Archived]:
    for row in rows:
        time, completed, action = row["instantTime"], row["completionTime"], row["action"]
        if not _TIME.fullmatch(time) or (completed is not None and not _TIME.fullmatch(completed)):
            raise ValueError(f"an instant has the time {time} and was completed at {completed}")
        if not 0 < len(action) <= _LONGEST_ACTION:
            raise ValueError(f"instant {time} has the action {action}")
        yield Archived(time=time, completed_time=completed or None, action=action)


class _Ranges(io.RawIOBase):
    """A file of a storage, read in ranges. `failure` is the error of the storage, if it raised one."""

    def __init__(self, path: str, size: int, storage: Storage) -> None:
        self._path, self._size, self._storage = path, size, storage
        self._place = 0
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._place)
        wanted = left if size < 0 else min(size, left)
        try:
            content = self._storage.read_part(self._path, begin=self._place, size=wanted) if wanted else b""
        except Exception as error:
            self.failure = error
            raise
        self._place += len(content)
        return content


# Which instants of a table were completed: those that the active timeline shows as such, and those in its archive.
#
# Hudi takes an instant that is not on the active timeline for completed only if it is earlier than the first one there,
# whatever that is and in whatever state, savepoints aside (`CompletionTimeQueryViewV2.isArchived`, with
# `BaseHoodieTimeline.getFirstNonSavepointCommit`; bytecode of 1.2.0). If an archive goes past an instant that stays,
# such as the plan of a clean, no plan names the log files of the commits that it has archived. Readers still show their
# rows, and a rewrite by that plan loses them (run). In layout 1 Hudi looks at writes and rewrites alone, and no archive
# goes past those.


_Instant = TypeVar("_Instant", Instant, InstantFiles)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletedInstants:
    """The times of completion by instant. What was requested `before` the first instant of the active timeline was
    completed, too. `passed` is that first instant if commits after it were archived: Hudi's plans ignore their files.
    """

    times: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    passed: Instant | None = None

    def at(self, time: str) -> str | None:
        """Return when an instant was completed. None if it was not."""
        return self.times.get(time, time if time < self.before else None)


def completed_instants(instants: Sequence[Instant], properties: TableProperties, storage: Storage) -> CompletedInstants:
    """Return what was completed, by the `instants` of the active timeline and by the archive. Only the files of the
    archive that reach into the active timeline are read; in nearly every table there are none.

    Raises TemporaryError if the archive cannot be read, because a merge removes its files or because it is damaged.
    """
    times = {instant.time: instant.completed_time or instant.time for instant in instants if not instant.pending}
    first = first_shown(instants)
    if first is None:
        return CompletedInstants(times=times)
    archived = [] if properties.layout is Layout.V1 else archived_since(first.time, properties, storage)
    passed = any(entry.action in COMMITS and entry.time not in times for entry in archived)
    return CompletedInstants(
        times={entry.time: entry.completed_time or entry.time for entry in archived} | times,
        before=first.time,
        passed=first if passed else None,
    )


def first_shown(instants: Iterable[_Instant]) -> _Instant | None:
    """Return the instant with which Hudi takes the active timeline to begin: the first one that is not at the time of
    a savepoint. None if there is none.
    """
    all_instants = list(instants)
    saved = {instant.time for instant in all_instants if instant.action == Action.SAVEPOINT}
    return min(
        (instant for instant in all_instants if instant.time not in saved),
        key=lambda instant: instant.time,
        default=None,
    )


def archived_since(time: str, properties: TableProperties, storage: Storage) -> Sequence[Archived]:
    """Return the archived instants that were requested at a time or later. For layout 2. Raises TemporaryError if the
    archive cannot be read.
    """
    folder = history_folder(properties)
    try:
        return [
            entry
            for file in history_files(folder, storage)
            if file.last >= time
            for entry in read_history(folder, file, storage)
            if entry.time >= time
        ]
    except (FileNotFoundError, PermanentError) as error:
        raise TemporaryError(f"the archived timeline in {folder} cannot be read: {error}") from error
