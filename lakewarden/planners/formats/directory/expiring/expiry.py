"""Whether a partition has expired: its time is long ago, and nothing happens in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.directory.committing.partition_time import partition_time
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.tables import LOG_OF_A_SINK
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.formats.directory.options.ttl_options import TtlOptions
from lakewarden.planners.formats.directory.writers.activity import active
from lakewarden.planners.partitions.partition_time import age_counts_from


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryTerm:
    """What all partitions of a directory are judged by: its options, how long a partition is kept, and the usual
    interval between two changes of one partition in seconds.
    """

    table: DirectoryTableOptions
    ttl: TtlOptions
    retain: timedelta
    usual: float | None = None


def term_of(table: DirectoryTableOptions, ttl: TtlOptions, *, usual: float | None) -> ExpiryTerm | None:
    """Return the term; None if the owner has set none."""
    if ttl.retain is None:
        return None
    return ExpiryTerm(table=table, ttl=ttl, retain=ttl.retain, usual=usual)


def expires_at(path: str, folder: Folder, term: ExpiryTerm) -> datetime | None:
    """Return when a partition expires; None if it never does: a name that tells no time, a folder with folders in it,
    or one without data.
    """
    if not path or folder.has_folders or not folder.files:
        return None
    time = age_counts_from(partition_time(path, term.ttl))
    try:
        return None if time is None else time + term.retain
    except OverflowError:
        return None


def why_kept(path: str, folder: Folder, above: Iterable[Folder], term: ExpiryTerm, now: datetime) -> str | None:
    """Return why a partition is not deleted now; None if it is. `above` are the folders above it."""
    at, above = expires_at(path, folder, term), list(above)
    if at is None:
        return "its name tells no time, or there are folders in it"
    if now <= at:
        return f"it expires at {at:%Y-%m-%d %H:%M:%S} UTC"
    if folder.has_log or any(one.has_log for one in above):
        return f"the {LOG_OF_A_SINK} in it, or above it, lists its files by name for Spark"
    at_work = active(folder, above, term.usual, term.table, now)
    if at_work is not None:
        return at_work.reason
    return "it holds a part in progress that no job has finished" if folder.staged or folder.staging else None
