"""The file groups of a table as its active timeline shows them: their newest base files, and their log files.

Writes of archived commits are not seen, nor what a rollback appended (table version 6 rolls a log back by a further log
file). So the counts are what the active timeline knows for certain, and never too high.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakewarden.planners.formats.hudi.metadata.commits import Written
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.model.instant import Service, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Fullness:
    """The most log files, and the most bytes in log files, that one file group has."""

    log_files: int
    log_bytes: int


_MOST_GROUPS = 500_000
"""If a timeline wrote more base files than this, only one file group in so many is looked at."""


class Sum(NamedTuple):
    """Files, and their bytes."""

    files: int = 0
    bytes: int = 0

    def plus(self, files: int, size: int) -> Sum:
        """Return the sum."""
        return Sum(self.files + files, self.bytes + size)


NOTHING = Sum()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGroups:
    """`base_files` are the sizes in bytes of the newest base files. Each of them stands for `each`. `fullest` counts
    the log files that the next compaction would merge. `fullest_unmerged` leaves out those that a log compaction has
    merged into one.

    A compaction of all log files would read `to_merge` of so many file groups (`merging`), `log_bytes` of it in logs.
    `superseded` are the files that a later commit has put out of use, by the time of that commit.
    """

    base_files: array[int]
    fullest: Fullness
    fullest_unmerged: Fullness
    each: int = 1
    to_merge: Sum = NOTHING
    merging: int = 0
    log_bytes: int = 0
    superseded: Mapping[str, Sum] = field(default_factory=dict)

    def smaller_than(self, limit: int) -> int:
        """Return how many newest base files are smaller than `limit` bytes."""
        return self.each * sum(size < limit for size in self.base_files)

    def put_out_of_use(self, *, since: str, before: str) -> Sum:
        """Return the files that were put out of use by the commits from one on, and before another."""
        found = [one for at, one in self.superseded.items() if since <= at < before]
        return Sum(sum(one.files for one in found), sum(one.bytes for one in found))


def file_groups(known: Sequence[Known], layout: Layout) -> FileGroups | None:
    """Return the table's file groups; None if the writes of one of the completed commits are not known."""
    commits = [one for one in known if one.is_commit and one.files.state is State.COMPLETED]
    wrote = [(one, one.written) for one in commits if one.written is not None]
    if len(wrote) < len(commits):
        return None
    each = 1 + sum(len(written.bases.groups) for _, written in wrote) // _MOST_GROUPS
    bases = _Bases.of(wrote, each)
    logs: dict[int, dict[int, int]] = {}
    unmerged: dict[int, dict[int, int]] = {}
    old: dict[tuple[int, int], tuple[str, int]] = {}
    for one, written in wrote:
        found = written.logs
        for group, name, size, slice_ in zip(found.groups, found.names, found.sizes, found.slices, strict=True):
            if group % each:
                continue
            # Layout 1 names a log file after the base instant of its slice, layout 2 after its own instant. In layout 2
            # it belongs to the newest base file that was requested before the log's commit was completed.
            belongs_to = slice_ if layout is Layout.V1 else one.files.ended
            if (superseded_at := bases.next_after(group, belongs_to)) is not None:
                old[group, name] = (superseded_at, size)
                continue
            logs.setdefault(group, {})[name] = size
            if one.files.ended >= bases.merged.get(group, ""):
                unmerged.setdefault(group, {})[name] = size
    for superseded_at, size in old.values():
        bases.put_out_of_use(superseded_at, size)
    merged_bases = [bases.sizes[group] for group in logs if group in bases.sizes]
    of_logs = [size for sizes in logs.values() for size in sizes.values()]
    return FileGroups(
        base_files=array("q", bases.sizes.values()),
        fullest=_fullest(logs),
        fullest_unmerged=_fullest(unmerged),
        each=each,
        to_merge=Sum(each * (len(merged_bases) + len(of_logs)), each * (sum(merged_bases) + sum(of_logs))),
        merging=each * len(logs),
        log_bytes=each * sum(of_logs),
        superseded={at: Sum(each * one.files, each * one.bytes) for at, one in bases.superseded.items()},
    )


class _Bases:
    """The base files of file groups: the newest ones, and when each of the others was put out of use."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.merged: dict[int, str] = {}
        """When a log compaction last merged the log files of a file group."""
        self.superseded: dict[str, Sum] = {}
        self._since: dict[int, str] = {}
        self._later: dict[int, list[str]] = {}
        """The times of the base files after the first one. Most file groups have one base file."""
        self._replaced: dict[int, str] = {}

    @staticmethod
    def of(wrote: Sequence[tuple[Known, Written]], each: int) -> _Bases:
        """Return the base files that these commits wrote, of one file group in `each`."""
        found = _Bases()
        for one, written in wrote:
            at = one.files.time
            found._replaced.update(dict.fromkeys(written.replaced, at))
            for group, size in zip(written.bases.groups, written.bases.sizes, strict=True):
                if group % each == 0:
                    found._add(group, size, at)
            if one.stands_for is Service.LOG_COMPACTION:
                found.merged.update(dict.fromkeys(written.logs.groups, at))
        for group, at in found._replaced.items():
            if group in found.sizes:
                found.put_out_of_use(at, found.sizes.pop(group))
        return found

    def put_out_of_use(self, at: str, size: int) -> None:
        """Count a file that the commit of this time has put out of use."""
        self.superseded[at] = self.superseded.get(at, NOTHING).plus(1, size)

    def next_after(self, group: int, at: str) -> str | None:
        """Return when a file of the group that belongs to the base file of this time was put out of use. None if it is
        in use.
        """
        newer = [*self._later.get(group, ()), self._since.get(group, "")]
        found = [one for one in newer if one > at]
        if group in self._replaced:
            found.append(self._replaced[group])
        return min(found, default=None)

    def _add(self, group: int, size: int, at: str) -> None:
        if group in self.sizes:
            self.put_out_of_use(at, self.sizes[group])
            self._later.setdefault(group, []).append(at)
        self.sizes[group], self._since[group] = size, at


def _fullest(logs: Mapping[int, Mapping[int, int]]) -> Fullness:
    return Fullness(
        log_files=max(map(len, logs.values()), default=0),
        log_bytes=max((sum(sizes.values()) for sizes in logs.values()), default=0),
    )
