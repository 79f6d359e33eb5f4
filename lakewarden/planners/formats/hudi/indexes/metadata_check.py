"""The files that the metadata table lists, compared with the files in a table's folders. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakewarden.planners.formats.hudi.history.completed import CompletedInstants
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, file_group

Folders = Mapping[str, Collection[str]]
"""The names of the data files in each partition, by its path."""

_SHOWN = 20
_CHANGES = ".cdc"
"""The end of a log file of changes (`HoodieCDCUtils.CDC_LOGFILE_SUFFIX`), which no slice has."""

_WRITTEN_BY = re.compile(r"(?:\.[^/]+?_(\d{14,17})\.log\.\d+.*)|(?:[^/]+_(\d{14,17})(?:\.[A-Za-z0-9]+)?)", re.ASCII)
"""`.<file id>_<instant>.log.<number>_<token>` and `<file id>_<token>_<instant>.<suffix>` (`FSUtils`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """Which files belong to a table, by the `instants` that were completed. `appended`: the name of a log file has the
    instant of its slice, and not of its write (layout 1). `quiet`: no write is in flight, and none was rolled back.
    """

    instants: CompletedInstants
    appended: bool = False
    quiet: bool = True

    def is_part(self, name: str) -> bool:
        """Whether a file certainly belongs to the table. A file of a failed write, or of one in flight, does not."""
        found = _WRITTEN_BY.fullmatch(name)
        if found is None:
            return False
        in_log, in_base = found.groups()
        if in_log is not None and self.appended and not self.quiet:
            return False
        return self.instants.at(in_log or in_base) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """Data files that lie in the table and not in its metadata table (`unknown`), and the other way round (`gone`)."""

    unknown: frozenset[DataFile] = frozenset()
    gone: frozenset[DataFile] = frozenset()

    def partitions(self) -> list[str]:
        """Return the partitions in which there is a difference."""
        return sorted({file.partition for file in self.unknown | self.gone})

    def still(self, again: Differences) -> Differences:
        """Return the differences that both comparisons show. A file that was written or deleted between two listings is
        no difference.
        """
        return Differences(unknown=self.unknown & again.unknown, gone=self.gone & again.gone)


def differences(known: Folders, stored: Folders, committed: Committed) -> Differences:
    """Return how the metadata table (`known`) differs from the table's folders (`stored`)."""
    unknown, gone = set(), set()
    for partition in known.keys() | stored.keys():
        here, there = set(stored.get(partition, ())), set(known.get(partition, ()))
        unknown |= {DataFile(partition, name) for name in here - there if committed.is_part(name)}
        gone |= {DataFile(partition, name) for name in there - here}
    return Differences(unknown=frozenset(unknown), gone=frozenset(gone))


def left_out(
    plan: Collection[DataFile], stored: Folders, committed: Committed, *, at: str, logs_alone: bool = False
) -> frozenset[DataFile]:
    """Return the files that a plan of a rewrite, made at the instant `at`, should read and does not name. Their rows
    would be lost.

    They lie in the plan's file groups, were committed before the plan, and are newer than the group's base file. Such
    a plan is made from a metadata table that does not list them. `logs_alone`: the plan is of a log compaction, and
    names no base file; the newest one that is stored counts.
    """
    bases = _base_times(plan, appended=committed.appended)
    if logs_alone:
        lying = _stored_bases(stored, committed, at)
        bases = {group: time or lying.get(group, "") for group, time in bases.items()}
    found = set()
    for partition, names in stored.items():
        for file in (DataFile(partition, name) for name in names):
            base = bases.get(file_group(file))
            if base is not None and file not in plan and _should_be_read(file.name, base, committed, at):
                found.add(file)
    return frozenset(found)


def _base_times(plan: Collection[DataFile], *, appended: bool) -> Mapping[tuple[str, str], str]:
    """Return the instant of each file group's base file. It is empty for a group of log files alone."""
    times = dict.fromkeys(map(file_group, plan), "")
    for file in plan:
        in_log, in_base = instants_of(file.name)
        time = in_base or (in_log if appended else None)
        if time is not None:
            times[file_group(file)] = max(time, times[file_group(file)])
    return times


def _stored_bases(stored: Folders, committed: Committed, at: str) -> Mapping[tuple[str, str], str]:
    """Return the instant of the newest base file that each file group had at `at`."""
    times: dict[tuple[str, str], str] = {}
    for file in (DataFile(partition, name) for partition, names in stored.items() for name in names):
        time = instants_of(file.name)[1]
        if time is not None and (committed.instants.at(time) or at) < at:
            times[file_group(file)] = max(time, times.get(file_group(file), ""))
    return times


def _should_be_read(name: str, base: str, committed: Committed, at: str) -> bool:
    in_log, in_base = instants_of(name)
    time = in_log or in_base
    completed = None if time is None else committed.instants.at(time)
    if time is None or completed is None or completed >= at:
        return False
    if in_log is not None and committed.appended:
        return committed.quiet and time == base
    return (completed if in_log is not None else time) > base


def instants_of(name: str) -> tuple[str | None, str | None]:
    """Return the instant in the name of a log file, or that in the name of a base file."""
    found = _WRITTEN_BY.fullmatch(name)
    return (None, None) if found is None or name.endswith(_CHANGES) else (found[1], found[2])


def named(files: Collection[DataFile]) -> str:
    """Return the names of files for people, and how many more there are."""
    shown = [f"{file.partition}/{file.name}".lstrip("/") for file in sorted(files)[:_SHOWN]]
    return ", ".join([*shown, *([f"and {len(files) - _SHOWN} more"] if len(files) > _SHOWN else [])])
