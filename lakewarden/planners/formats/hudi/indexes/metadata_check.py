"""What the metadata table says lies in a table's folders, held against what lies there. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakewarden.planners.formats.hudi.metadata.plans import DataFile

Folders = Mapping[str, Collection[str]]
"""The names of the data files in each partition, by its path."""

_SHOWN = 20
_WRITTEN_BY = re.compile(r"(?:\.[^/]+?_(\d{14,17})\.log\.\d+.*)|(?:[^/]+_(\d{14,17})(?:\.[A-Za-z0-9]+)?)", re.ASCII)
"""`.<file id>_<instant>.log.<number>_<token>` and `<file id>_<token>_<instant>.<suffix>` (`FSUtils`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """Which instants are part of the table: those `completed`, and those `before` which the timeline tells nothing any
    more. `appended`: in a log file's name stands the instant of its slice, and not of the write (layout 1).
    """

    completed: frozenset[str]
    before: str
    appended: bool = False
    quiet: bool = True

    def is_part(self, name: str) -> bool:
        """Whether a file certainly belongs to the table: one of a write in flight, or of a failed one, does not."""
        found = _WRITTEN_BY.fullmatch(name)
        if found is None:
            return False
        in_log, in_base = found.groups()
        if in_log is not None and self.appended and not self.quiet:
            return False
        time = in_log or in_base
        return time in self.completed or time < self.before


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """Data files that lie in the table and that its metadata table does not know, and those that only that knows."""

    unknown: frozenset[DataFile] = frozenset()
    gone: frozenset[DataFile] = frozenset()

    def partitions(self) -> list[str]:
        """Return the partitions in which there is a difference."""
        return sorted({file.partition for file in self.unknown | self.gone})

    def still(self, again: Differences) -> Differences:
        """Return what two looks agree on: whatever was written or deleted between two listings is no difference."""
        return Differences(unknown=self.unknown & again.unknown, gone=self.gone & again.gone)


def differences(known: Folders, stored: Folders, committed: Committed) -> Differences:
    """Return how the metadata table (`known`) differs from what lies in the table (`stored`)."""
    unknown, gone = set(), set()
    for partition in known.keys() | stored.keys():
        here, there = set(stored.get(partition, ())), set(known.get(partition, ()))
        unknown |= {DataFile(partition, name) for name in here - there if committed.is_part(name)}
        gone |= {DataFile(partition, name) for name in there - here}
    return Differences(unknown=frozenset(unknown), gone=frozenset(gone))


def named(files: Collection[DataFile]) -> str:
    """Return files for people, as many as a person reads."""
    shown = [f"{file.partition}/{file.name}".lstrip("/") for file in sorted(files)[:_SHOWN]]
    return ", ".join([*shown, *([f"and {len(files) - _SHOWN} more"] if len(files) > _SHOWN else [])])
