"""One folder of a directory, as sums and times: of its files at most one name is kept."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from itertools import chain, pairwise
from math import inf
from statistics import median
from urllib.parse import unquote

from lakewarden.planners.formats.layouts import LAYOUTS, found_in
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.locations import is_local

# What a name in a directory stands for. Pure.
#
# Sources: Flink's `HadoopRecoverableFsDataOutputStream` (`.part-...inprogress...`), `RecoverableMultiPartUploadImpl`
# (`_..._tmp_...`) and `CompactOperator` (`.uncompacted-part-...`), Hadoop's `FileOutputCommitter` (`_temporary`), and
# Spark's `HadoopFSUtils.shouldFilterOutPathName`.


class EntryKind(Enum):
    """What a file or a folder is."""

    DATA = "data"
    """A file that readers see, or a folder that readers look into."""
    MARKER = "marker"
    """The file that says that its partition is committed."""
    STAGED = "staged"
    """A part in progress or pending, or a folder that holds such parts."""
    IGNORED = "ignored"
    """Neither of them."""


_STAGED_PARTS = (".inprogress.", "._COPYING_")
_STAGED_ENDS = (".inprogress", ".tmp", "._COPYING_")
OURS = "_lakewarden"
"""The folder below a directory in which compaction writes. Readers overlook it."""
REWRITTEN = "part-lakewarden-"
"""So begin the names of the files that compaction writes."""
DROP = "drop-"
"""So begin the names of the folders in it that hold partitions which ttl has moved away."""

_HARMLESS = frozenset({OURS, "_SUCCESS", "_metadata", "_common_metadata", ".DS_Store", "_spark_metadata", ".snapshot"})
_HARMLESS_BEGINNINGS = ("_committed_", "_started_", ".Trash", ".nfs")
_HARMLESS_ENDS = (".crc", "_$folder$")


def is_hidden(name: str) -> bool:
    """Whether readers overlook it: Spark's rule, with which Hive, Flink and Trino agree for such names."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def kind_of(name: str, *, marker: str, ignored: Collection[str] = ()) -> EntryKind:
    """Return what a name stands for. A hidden name of unknown meaning may be of a writer, and counts as staged."""
    if name == marker:
        return EntryKind.MARKER
    if any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in ignored):
        return EntryKind.IGNORED
    if name in _HARMLESS or name.startswith(_HARMLESS_BEGINNINGS) or name.endswith(_HARMLESS_ENDS):
        return EntryKind.IGNORED
    if is_hidden(name) or name.endswith(_STAGED_ENDS) or any(part in name for part in _STAGED_PARTS):
        return EntryKind.STAGED
    return EntryKind.DATA


def partition_values(path: str) -> dict[str, str]:
    """Return the values of the partition columns that a path below the table names, in order: of `dt=1/hr=a%2Fb` the
    values `1` and `a/b`. A level without a column is left out.

    Source: Flink's `PartitionPathUtils.unescapePathName`, and Hive's.
    """
    levels = (level.partition("=") for level in path.split("/"))
    return {unquote(column): unquote(value) for column, sign, value in levels if sign}


_LEFT_FILES = (re.compile(r"\..+\.inprogress\.[^.]+"), re.compile(r"_.+_tmp_[0-9a-fA-F-]{8,}"))
_LEFT_FOLDERS = ("_temporary", ".spark-staging-", ".hive-staging", ".staging_")


def may_be_orphan(name: str, *, is_folder: bool) -> bool:
    """Whether a part in progress, or a folder of such parts, has a name that Flink, Spark or Hive gives. Nothing else
    is deleted. Flink's `.uncompacted-...` holds rows that are in no other file.
    """
    if is_folder:
        return name == _LEFT_FOLDERS[0] or name.startswith(_LEFT_FOLDERS[1:])
    return not name.startswith(".uncompacted-") and any(FILE.fullmatch(name) for FILE in _LEFT_FILES)


# Tables of other formats in a directory, and above it, and checkpoints of streams in it. Their files are theirs.

LOG_OF_A_SINK = "_spark_metadata"
"""The folder in which Spark's streaming sink lists its files by name (`FileStreamSink.metadataDir`)."""

_FORMATS = {layout.folder: name for name, layout in LAYOUTS.items()}

_ACID = re.compile(r"base_\d{7,}(_v\d+)?|(delete_)?delta_\d{7,}_\d{7,}(_\d{4})?(_v\d+)?")
"""Source: Hive, `AcidUtils.BASE_PREFIX`, `deltaSubdir` and `deleteDeltaSubdir`."""

_CHECKPOINTS = {("offsets", "commits"): ("Spark", "metadata"), ("shared", "taskowned"): ("Flink", r"chk-\d+")}
"""Of a stream's checkpoint two folders, the engine, and the name of something else that is in it. Source: Spark 3.5,
`StreamExecution`; Flink 1.20, `AbstractFsCheckpointStorageAccess`."""

_IN_CHECKPOINTS = frozenset(chain(*_CHECKPOINTS))


def may_be_of_a_table(name: str) -> bool:
    """Whether a folder of this name may make the folder above it a table, or a checkpoint."""
    return name in _FORMATS or name in _IN_CHECKPOINTS or _ACID.fullmatch(name) is not None


def table_in(folder: str, names: Collection[str], storage: Storage) -> str | None:
    """Return in words the table that a folder is, or the checkpoint of a stream. `names` are those of the folders in
    it. None if it is none.

    Raises TemporaryError.
    """
    for inside, (engine, other) in _CHECKPOINTS.items():
        if set(inside) <= set(names) and any(re.fullmatch(other, entry.name) for entry in storage.entries(folder)):
            return f"a checkpoint of a stream of {engine} ({folder}/{inside[0]})"
    if tables := found_in(folder, storage, formats=[_FORMATS[name] for name in names if name in _FORMATS]):
        return f"{tables[0].table} ({tables[0].file})"
    acid = min((name for name in names if _ACID.fullmatch(name)), default=None)
    return None if acid is None else f"a partition of a transactional Hive table ({folder}/{acid})"


def table_above(location: str, storage: Storage) -> str | None:
    """Return in words the table that a directory lies in. None if it lies in none. What may not be listed holds none.

    Raises TemporaryError.
    """
    for folder in _above(location):
        with contextlib.suppress(PermanentError, FileNotFoundError):
            if table := table_in(folder, _FORMATS, storage):
                return table
    return None


def log_of_a_sink(location: str, storage: Storage) -> str | None:
    """Return the list of a streaming sink in a directory, or above it. None if there is none.

    Raises TemporaryError.
    """
    for folder in (location, *_above(location)):
        with contextlib.suppress(PermanentError, FileNotFoundError):
            if next(storage.entries(f"{folder}/{LOG_OF_A_SINK}"), None) is not None:
                return f"{folder}/{LOG_OF_A_SINK}"
    return None


def _above(location: str) -> Iterator[str]:
    scheme, separator, path = ("", "", os.path.realpath(location)) if is_local(location) else location.partition("://")
    while (path := posixpath.dirname(path)) not in ("", "/"):
        yield f"{scheme}{separator}{path}"


ONE_CHANGE = 1.0
"""Seconds: files of one checkpoint, written by several tasks, are one change of the partition."""

_OF_THE_MARKER = 0.1
"""Seconds: so far apart are the times of a marker and of the folder that it appeared in."""

_NEWEST_CHANGES = 33
_LEAST_GAPS = 3
"""The usual interval of fewer is no rhythm: one file and its late follower tell of none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """One folder of a directory, without those below it. Times are seconds since the epoch on the storage's own clock.

    `newest` is the time of the newest data file, and `changed` that of the folder itself where the storage tells it;
    0 where there is none. `marker` is the time of the marker, if there is one. `staged` counts the parts in progress,
    and `staged_at` is the newest change of one. `staging` counts the folders that hold such parts. `interval` is the
    usual time between two changes, in seconds; None where too few are known. `has_folders`: there are folders below
    that may hold data. `small` counts the data files below the size that compaction calls small, and `small_bytes` are
    theirs. An empty file is none of them. `oldest_staged` is the oldest change of a part in progress, or of a folder
    of such parts; 0 where there is none. `staging_name` is the name of such a folder, if possible of one that is
    unexplained. `hollow_since` is the newest change of an object in such folders, if none of them holds a byte: only
    empty objects that mark folders; 0 otherwise, and always on disks. `has_log`: the list of a streaming sink lies in
    it. `returned` is the name of the oldest small data file that another program wrote, if it is older than one that
    compaction has written: it came after that one. It is empty otherwise, and always in object stores, where a file
    has the time at which it came.
    """

    files: int = 0
    bytes: int = 0
    newest: float = 0.0
    changed: float = 0.0
    marker: float | None = None
    staged: int = 0
    staged_at: float = 0.0
    staging: int = 0
    interval: float | None = None
    has_folders: bool = False
    small: int = 0
    small_bytes: int = 0
    oldest_staged: float = 0.0
    staging_name: str = ""
    hollow_since: float = 0.0
    has_log: bool = False
    returned: str = ""

    @property
    def changed_at(self) -> float:
        """When something changed last that readers see.

        A rename keeps the time of a file, and not that of its folder. So the folder's own time counts, unless the
        marker explains it.
        """
        if self.marker is not None and self.changed <= self.marker + _OF_THE_MARKER:
            return self.newest
        return max(self.newest, self.changed)

    @property
    def unexplained(self) -> str:
        """The name of a folder of parts that no known writer gives; empty if there is none."""
        return "" if may_be_orphan(self.staging_name, is_folder=True) else self.staging_name

    @property
    def is_partition(self) -> bool:
        """Whether something is in it that a partition is made of."""
        return self.files > 0 or self.marker is not None or self.staged > 0 or self.staging > 0

    @property
    def is_committed(self) -> bool:
        """Whether it has a marker, and nothing has changed since. In a store that counts whole seconds a change in the
        second of the marker may have come after it.
        """
        return self.marker is not None and self.changed_at < self.marker


class FolderSum:
    """Adds up the entries of one folder, as a listing brings them."""

    def __init__(self, *, small_below: int = 0) -> None:
        self._small_below = small_below
        self._small = 0
        self._small_bytes = 0
        self._bytes = 0
        self._written = array("d")
        self._marker: float | None = None
        self._staged = 0
        self._staged_at = 0.0
        self._staging = 0
        self._oldest_staged = 0.0
        self._staging_name = ""
        self._last_folder = ""
        self._newest_key = 0.0
        self._bytes_below = 0
        self._has_folders = False
        self._has_log = False
        self._rewritten = 0.0
        self._oldest = (inf, "")

    def add(self, kind: EntryKind, *, size: int, written: float, name: str = "") -> None:
        """Add a file. Its name counts where its time may be older than its place in the folder."""
        match kind:
            case EntryKind.DATA:
                self._bytes += size
                self._written.append(written)
                if name.startswith(REWRITTEN):
                    self._rewritten = max(self._rewritten, written)
                elif name and 0 < size < self._small_below:
                    self._oldest = min(self._oldest, (written, name))
                if 0 < size < self._small_below:
                    self._small += 1
                    self._small_bytes += size
            case EntryKind.MARKER:
                self._marker = written
            case EntryKind.STAGED:
                self._staged += 1
                self._staged_at = max(self._staged_at, written)
                self._oldest_staged = min(self._oldest_staged or written, written)
            case EntryKind.IGNORED:
                pass

    def add_folder(self, name: str, kind: EntryKind, *, written: float = 0.0) -> None:
        """Add a folder: one of data, one that holds parts in progress, or the list of a streaming sink."""
        self._has_log = self._has_log or name == LOG_OF_A_SINK
        self._has_folders = self._has_folders or kind is EntryKind.DATA
        if kind is EntryKind.STAGED:
            self._staging += 1
            if not self._staging_name or not may_be_orphan(name, is_folder=True):
                self._staging_name = name
            self._oldest_staged = min(self._oldest_staged or written, written)

    def add_key_below(self, name: str, kind: EntryKind, *, size: int, written: float) -> None:
        """Add a file at any depth of a hidden folder, in a store that knows keys alone. Keys of one folder come in one
        piece.
        """
        if name != self._last_folder:
            self._last_folder = name
            self.add_folder(name, kind, written=written)
        if kind is EntryKind.STAGED:
            self._oldest_staged = min(self._oldest_staged or written, written)
            self._newest_key = max(self._newest_key, written)
            self._bytes_below += size

    def folder(self, *, changed: float = 0.0) -> Folder:
        """Return the sum of all that was added."""
        return Folder(
            files=len(self._written),
            bytes=self._bytes,
            newest=max(self._written, default=0.0),
            changed=changed,
            marker=self._marker,
            staged=self._staged,
            staged_at=self._staged_at,
            staging=self._staging,
            interval=usual_interval(self._written),
            has_folders=self._has_folders,
            oldest_staged=self._oldest_staged,
            staging_name=self._staging_name,
            hollow_since=0.0 if self._bytes_below else self._newest_key,
            small=self._small,
            small_bytes=self._small_bytes,
            has_log=self._has_log,
            returned=self._oldest[1] if self._oldest[0] < self._rewritten else "",
        )


def usual_interval(written: array[float]) -> float | None:
    """Return the median of the intervals between the newest changes, in seconds; None where there are too few."""
    changes: list[float] = []
    last = None
    for moment in sorted(written, reverse=True):
        if last is None or last - moment > ONE_CHANGE:
            changes.append(moment)
            if len(changes) == _NEWEST_CHANGES:
                break
        last = moment
    gaps = [later - earlier for later, earlier in pairwise(changes)]
    return median(gaps) if len(gaps) >= _LEAST_GAPS else None
