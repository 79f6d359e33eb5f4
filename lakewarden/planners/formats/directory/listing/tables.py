"""Tables of other formats in a directory, and above it, and checkpoints of streams in it. Their files are theirs."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Collection, Iterator
from itertools import chain

from lakewarden.planners.formats.layouts import LAYOUTS, found_in
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.locations import is_local

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
    if found := found_in(folder, storage, formats=[_FORMATS[name] for name in names if name in _FORMATS]):
        return f"{found[0].table} ({found[0].file})"
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
