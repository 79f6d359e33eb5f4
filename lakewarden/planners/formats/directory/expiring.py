"""Which partitions have expired, and which folders may hold orphans: parts in progress that have not changed for longer
than any job is restored. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.directory.committing import partition_time
from lakewarden.planners.formats.directory.listing.folders import LOG_OF_A_SINK, Folder
from lakewarden.planners.formats.directory.options import DirectoryTableOptions, OrphansOptions, TtlOptions
from lakewarden.planners.formats.directory.partitions import (
    MOST_SHOWN,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.formats.directory.writers import active, moment
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.view import ServiceNeeds
from lakewarden.planners.partitions import age_counts_from
from lakewarden.planners.settings import format_size


def age_of_orphans(table: DirectoryTableOptions, options: OrphansOptions) -> timedelta | None:
    """Return how long an orphan has not changed; None if the owner names no horizon."""
    return None if table.restore_horizon is None else max(table.restore_horizon, options.unchanged_for)


def with_orphans(folders: Mapping[str, Folder], age: timedelta, now: datetime) -> dict[str, Folder]:
    """Return the folders with parts, or with folders of parts, that may be orphans. No store is asked to delete the
    empty objects that mark folders.
    """
    before = (now - age).timestamp()
    return {
        path: folder
        for path, folder in folders.items()
        if (folder.staged or (folder.staging and not folder.hollow_since)) and folder.oldest_staged < before
    }


def orphans_needs(
    folders: Mapping[str, Folder], age: timedelta, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Add up what may be orphans."""
    with_parts = with_orphans(folders, age, now)
    later = (
        moment(folder.oldest_staged) + age
        for folder in folders.values()
        if folder.oldest_staged >= (now - age).timestamp()
    )
    changes_at = min(later, default=None)
    if not with_parts and unfinished is None:
        rest = NotDue(reason="no part in progress is old enough to be an orphan", again_at=changes_at)
        return ServiceNeeds(rest=rest, changes_at=changes_at)
    files = sum(folder.staged + folder.staging for folder in with_parts.values())
    oldest = min((folder.oldest_staged for folder in with_parts.values()), default=now.timestamp())
    backlog = backlog_of(files, moment(oldest) + age, files=files, unfinished=unfinished)
    note = f"{len(with_parts)} partitions hold parts, or folders of parts, that may be orphans"
    return ServiceNeeds(backlog=backlog, notes=(note,), changes_at=changes_at)


# Whether a partition has expired: its time is long ago, and nothing happens in it. Pure.


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
    if folder.has_log or any(folder_above.has_log for folder_above in above):
        return f"the {LOG_OF_A_SINK} in it, or above it, lists its files by name for Spark"
    at_work = active(folder, above, term.usual, term.table, now)
    if at_work is not None:
        return at_work.reason
    return "it holds a part in progress that no job has finished" if folder.staged or folder.staging else None


# What ttl has to do on a directory. Pure.


def expired(folders: Mapping[str, Folder], term: ExpiryTerm, now: datetime) -> list[str]:
    """Return the partitions that have expired, the oldest times first."""
    dated_paths = (
        (at, path)
        for path, folder in folders.items()
        if (at := expires_at(path, folder, term)) is not None
        and why_kept(path, folder, above_in(path, folders), term, now) is None
    )
    return [path for _, path in sorted(dated_paths)]


def ttl_needs(
    folders: Mapping[str, Folder], term: ExpiryTerm, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Judge every partition, and add up."""
    gone, first, later, waits = list[Folder](), (now, ""), list[datetime](), list[str]()
    for path, folder in folders.items():
        at = expires_at(path, folder, term)
        if at is None:
            continue
        why = why_kept(path, folder, above_in(path, folders), term, now)
        if why is None:
            gone.append(folder)
            first = min(first, (at, path))
        elif at >= now:
            later.append(at)
        elif len(waits) < MOST_SHOWN:
            waits.append(f"{shown_path(path)} has expired, and is kept: {why}")
    changes_at = min(later, default=None)
    if not gone and unfinished is None:
        return ServiceNeeds(
            rest=NotDue(reason=waits[0] if waits else "no partition has expired", again_at=changes_at),
            notes=tuple(waits),
            changes_at=changes_at,
        )
    files, size = sum(folder.files for folder in gone), sum(folder.bytes for folder in gone)
    backlog = backlog_of(len(gone), first[0], files=files, size=size, unfinished=unfinished)
    oldest = f"; the first is {shown_path(first[1])}, since {first[0]:%Y-%m-%d %H:%M} UTC" if gone else ""
    summary = f"{len(gone)} partitions have expired, with {files} files, {format_size(size)}{oldest}"
    return ServiceNeeds(backlog=backlog, notes=(summary, *waits), changes_at=changes_at)
