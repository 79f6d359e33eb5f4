"""The file groups of a table as its active timeline tells them: their newest base files, and their log files.

What was written by commits that are archived by now is not seen, nor what a rollback appended (table version 6 rolls
a log back by a further log file). So counts are what the active timeline knows for certain, and never too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.hudi.commits import FileGroup, WrittenFile
from lakewarden.planners.formats.hudi.names import Layout
from lakewarden.planners.formats.hudi.timeline import Known
from lakewarden.planners.model.instant import Service, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Fullness:
    """The most log files, and the most bytes in log files, that one file group has."""

    log_files: int
    log_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGroups:
    """`base_files` are the sizes in bytes of the newest base files. `fullest` counts the log files that the next
    compaction would merge; `fullest_unmerged` leaves out those that a log compaction has merged into one.
    """

    base_files: tuple[int, ...]
    fullest: Fullness
    fullest_unmerged: Fullness

    def smaller_than(self, limit: int) -> int:
        """Return how many newest base files have less than `limit` bytes."""
        return sum(size < limit for size in self.base_files)


def file_groups(known: Sequence[Known], layout: Layout) -> FileGroups | None:
    """Return the table's file groups; None if what one of the completed commits wrote is not known."""
    commits = [one for one in known if one.is_commit and one.files.state is State.COMPLETED]
    if any(one.written is None for one in commits):
        return None
    replaced = {group for one in commits if one.written for group in one.written.replaced}
    bases: dict[FileGroup, tuple[str, int]] = {}
    merged: dict[FileGroup, str] = {}
    for one, file in _files(commits, replaced):
        if file.is_log and one.stands_for is Service.LOG_COMPACTION:
            merged[file.group] = one.files.time
        elif not file.is_log:
            bases[file.group] = (one.files.time, file.bytes)
    logs: dict[FileGroup, dict[str, int]] = {}
    unmerged: dict[FileGroup, dict[str, int]] = {}
    for one, file in _files(commits, replaced):
        if file.is_log and _comes_after(one, file, bases.get(file.group, ("", 0))[0], layout):
            logs.setdefault(file.group, {})[file.name] = file.bytes
            if one.files.ended >= merged.get(file.group, ""):
                unmerged.setdefault(file.group, {})[file.name] = file.bytes
    return FileGroups(
        base_files=tuple(size for _, size in bases.values()),
        fullest=_fullest(logs),
        fullest_unmerged=_fullest(unmerged),
    )


def _files(commits: Iterable[Known], replaced: set[FileGroup]) -> Iterable[tuple[Known, WrittenFile]]:
    """Yield the files of every commit whose file group is still part of the table, in the order of the instants."""
    for one in commits:
        if one.written is not None:
            yield from ((one, file) for file in one.written.files if file.group not in replaced)


def _comes_after(one: Known, file: WrittenFile, base: str, layout: Layout) -> bool:
    """Whether a log file belongs to the slice of the group's newest base file.

    Layout 1 names a log file after the base instant of its slice, layout 2 after its own; there a log belongs to the
    newest base file that was requested before the log's commit was completed.
    """
    if layout is Layout.V1:
        return _slice_of(file.name) >= base
    return one.files.ended >= base


def _slice_of(name: str) -> str:
    """Return the instant in `.<file id>_<instant>.log.<n>_<token>`."""
    return name.partition(".log.")[0].rpartition("_")[2]


def _fullest(logs: Mapping[FileGroup, Mapping[str, int]]) -> Fullness:
    return Fullness(
        log_files=max(map(len, logs.values()), default=0),
        log_bytes=max((sum(sizes.values()) for sizes in logs.values()), default=0),
    )
