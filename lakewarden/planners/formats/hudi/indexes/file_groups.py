"""The file groups of a table as its active timeline tells them: their newest base files, and their log files.

What was written by commits that are archived by now is not seen, nor what a rollback appended (table version 6 rolls
a log back by a further log file). So counts are what the active timeline knows for certain, and never too high.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.model.instant import Service, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Fullness:
    """The most log files, and the most bytes in log files, that one file group has."""

    log_files: int
    log_bytes: int


_MOST_GROUPS = 500_000
"""Of a timeline that wrote more base files than this, one file group in so many is looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGroups:
    """`base_files` are the sizes in bytes of the newest base files, of which each stands for `each`. `fullest` counts
    the log files that the next compaction would merge; `fullest_unmerged` leaves out those that a log compaction has
    merged into one.
    """

    base_files: array[int]
    fullest: Fullness
    fullest_unmerged: Fullness
    each: int = 1

    def smaller_than(self, limit: int) -> int:
        """Return how many newest base files have less than `limit` bytes."""
        return self.each * sum(size < limit for size in self.base_files)


def file_groups(known: Sequence[Known], layout: Layout) -> FileGroups | None:
    """Return the table's file groups; None if what one of the completed commits wrote is not known."""
    commits = [one for one in known if one.is_commit and one.files.state is State.COMPLETED]
    wrote = [(one, one.written) for one in commits if one.written is not None]
    if len(wrote) < len(commits):
        return None
    each = 1 + sum(len(written.bases.groups) for _, written in wrote) // _MOST_GROUPS
    replaced = {group for _, written in wrote for group in written.replaced}
    sizes: dict[int, int] = {}
    since: dict[int, str] = {}
    merged: dict[int, str] = {}
    for one, written in wrote:
        for group, size in zip(written.bases.groups, written.bases.sizes, strict=True):
            if group % each == 0 and group not in replaced:
                sizes[group], since[group] = size, one.files.time
        if one.stands_for is Service.LOG_COMPACTION:
            merged.update(dict.fromkeys(written.logs.groups, one.files.time))
    logs: dict[int, dict[int, int]] = {}
    unmerged: dict[int, dict[int, int]] = {}
    for one, written in wrote:
        found = written.logs
        for group, name, size, slice_ in zip(found.groups, found.names, found.sizes, found.slices, strict=True):
            # Layout 1 names a log file after the base instant of its slice, layout 2 after its own; there a log belongs
            # to the newest base file that was requested before the log's commit was completed.
            belongs_to = slice_ if layout is Layout.V1 else one.files.ended
            if group % each or group in replaced or belongs_to < since.get(group, ""):
                continue
            logs.setdefault(group, {})[name] = size
            if one.files.ended >= merged.get(group, ""):
                unmerged.setdefault(group, {})[name] = size
    return FileGroups(
        base_files=array("q", sizes.values()),
        fullest=_fullest(logs),
        fullest_unmerged=_fullest(unmerged),
        each=each,
    )


def _fullest(logs: Mapping[int, Mapping[int, int]]) -> Fullness:
    return Fullness(
        log_files=max(map(len, logs.values()), default=0),
        log_bytes=max((sum(sizes.values()) for sizes in logs.values()), default=0),
    )
