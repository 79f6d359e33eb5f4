"""Whether a partition is active: a part is in progress, or something changed within the writer's own rhythm. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from statistics import median

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.settings import format_duration, shown

_NEWEST_PARTITIONS = 64
_LONGEST_QUIET = timedelta(days=3650)


@dataclass(frozen=True, kw_only=True, slots=True)
class Active:
    """A partition that is still written to, as far as can be told, and why; `until` when time alone ends that."""

    reason: str
    until: datetime | None = None


def moment(seconds: float) -> datetime:
    """Return a time of a listing."""
    return datetime.fromtimestamp(seconds, UTC)


def usual_interval(folders: Iterable[Folder]) -> float | None:
    """Return the usual time between two changes of one partition, in seconds: the median of the partitions that changed
    last. None where no partition tells.
    """
    known = ((folder.newest, folder.interval) for folder in folders if folder.interval is not None)
    newest = nlargest(_NEWEST_PARTITIONS, known)
    return median(interval for _, interval in newest) if newest else None


def quiet_time(folder: Folder, usual: float | None, options: DirectoryTableOptions) -> timedelta:
    """Return for how long a partition is active after a change: by its own rhythm and that of the table, the longer
    counts, and never less than `quiet_for`.
    """
    rhythm = max(folder.interval or 0.0, usual or 0.0) * options.quiet_intervals
    longest = min(timedelta(seconds=min(rhythm, _LONGEST_QUIET.total_seconds())), _LONGEST_QUIET)
    return max(options.quiet_for, longest)


def in_progress(folder: Folder, options: DirectoryTableOptions, now: datetime) -> bool:
    """Whether a folder holds a part in progress that is not abandoned, or a folder of such parts."""
    if _is_staging(folder, options, now):
        return True
    if folder.staged == 0:
        return False
    horizon = options.abandoned_after
    return horizon is None or now - moment(folder.staged_at) <= horizon


def _is_staging(folder: Folder, options: DirectoryTableOptions, now: datetime) -> bool:
    """Whether a folder of parts lies in a folder. On a disk the time of such a folder does not show what happens deeper
    in it: it is never abandoned. On an object store one that holds no byte is abandoned after `restore_horizon`.
    """
    if folder.staging == 0 or not folder.hollow_since or options.restore_horizon is None:
        return folder.staging > 0
    return now - moment(folder.hollow_since) <= options.restore_horizon


def active(
    folder: Folder, above: Iterable[Folder], usual: float | None, options: DirectoryTableOptions, now: datetime
) -> Active | None:
    """Return why a partition is active; None where it is inactive. `above` are the folders above it: a folder of parts
    in progress that lies there may be of any partition below.
    """
    if in_progress(folder, options, now):
        return Active(reason=f"{_parts(folder.staged + folder.staging)} in progress{_named(folder)}")
    staging = next((one for one in above if _is_staging(one, options, now)), None)
    if staging is not None:
        return Active(reason=f"a folder above holds parts in progress{_named(staging)}")
    quiet = quiet_time(folder, usual, options)
    ends_at = moment(folder.changed_at) + quiet
    if now <= ends_at:
        return Active(reason=f"it changed within {format_duration(quiet)}, the writer's rhythm", until=ends_at)
    return None


def _named(folder: Folder) -> str:
    return f" ({shown(folder.staging_name)})" if folder.staging_name else ""


def _parts(count: int) -> str:
    return "a part is" if count == 1 else f"{count} parts are"
