"""What a directory has in place of a timeline: the newest change, marker and part in progress of its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.writers.activity import moment
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.timeline import Timeline

_NEWEST = 100
_LONGEST_PATH = 500


def timeline_of(folders: Mapping[str, Folder]) -> Timeline:
    """Return the newest instants, at most a hundred. Nothing can be told of one that is not there."""
    newest = nlargest(_NEWEST, (one for path, folder in folders.items() for one in _happened(path, folder)))
    return Timeline(instants=tuple(_instant(*one) for one in reversed(newest)), oldest_leave_first=False)


def _happened(path: str, folder: Folder) -> Iterator[tuple[float, str, str]]:
    """Yield when something happened in a partition, what, and the partition."""
    if folder.files:
        yield folder.changed_at, "write", path
    if folder.staged:
        yield folder.staged_at, "part_in_progress", path
    if folder.marker is not None:
        yield folder.marker, Service.PARTITION_COMMIT.value, path


def _instant(at: float, action: str, path: str) -> Instant:
    time = moment(at)
    pending = action == "part_in_progress"
    return Instant(
        time=f"{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03d}Z {printable(path, most=_LONGEST_PATH) or '.'}",
        action=action,
        stands_for=Service.PARTITION_COMMIT if action == Service.PARTITION_COMMIT else InstantKind.WRITE,
        state=State.INFLIGHT if pending else State.COMPLETED,
        requested_at=time,
        completed_time=None if pending else time.isoformat(),
        completed_at=None if pending else time,
    )
