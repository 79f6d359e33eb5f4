"""Which partitions are so old that they may be deleted.

Hudi's own `KeepByTimeStrategy` is not asked (docs/hudi.md): it looks at base files alone, so that a partition whose
rows are only updated, in log files, counts as untouched; and from 25 days on its milliseconds overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage

_DATA_FILES = (".parquet", ".orc", ".hfile")
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)  # before it there was no Hudi: the store does not know


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """A partition's path, how many data files lie in it, and when the newest of them was written (None: not known).

    It is the time of the file, not of the commit: it also tells of writes in flight, of log files and of copies.
    """

    path: str
    files: int
    written_at: datetime | None

    def expired(self, *, days: int, now: datetime) -> bool:
        """Whether nothing was written to it for so many days. Nobody knows of one without files or times."""
        return self.written_at is not None and now - self.written_at > timedelta(days=days)


def read_partition(location: str, path: str, storage: Storage) -> Partition:
    """List one partition. Raises TemporaryError if it cannot be listed whole."""
    try:
        entries = storage.listing(f"{location}/{path}", most=MOST_FILES)
    except FileNotFoundError:
        entries = ()
    return partition_of(path, entries)


def confirm_expired(once: Partition, again: Partition) -> None:
    """Raise TemporaryError unless two listings of an expired partition agree: one that leaves out the newest files
    makes any partition look old.
    """
    if (once.files, once.written_at) != (again.files, again.written_at):
        raise TemporaryError(
            f"two listings of partition {once.path} do not agree: {once.files} data files, then {again.files}"
        )


def partition_of(path: str, entries: Sequence[FileEntry]) -> Partition:
    """Return what a listing of a partition's folder tells of it."""
    files = [entry for entry in entries if not entry.is_folder and _is_data(entry.name)]
    times = [entry.modified for entry in files]
    known = bool(times) and min(times) > _NEVER
    return Partition(path=path, files=len(files), written_at=max(times) if known else None)


def _is_data(name: str) -> bool:
    return name.endswith(_DATA_FILES) or (".log." in name and not name.endswith(".crc"))
