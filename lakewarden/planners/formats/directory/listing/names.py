"""What a name in a directory stands for. Pure.

Sources: Flink's `HadoopRecoverableFsDataOutputStream` (`.part-...inprogress...`), `RecoverableMultiPartUploadImpl`
(`_..._tmp_...`) and `CompactOperator` (`.uncompacted-part-...`), Hadoop's `FileOutputCommitter` (`_temporary`), and
Spark's `HadoopFSUtils.shouldFilterOutPathName`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from fnmatch import fnmatchcase
from urllib.parse import unquote


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
    return not name.startswith(".uncompacted-") and any(one.fullmatch(name) for one in _LEFT_FILES)
