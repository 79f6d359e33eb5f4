"""The files of a fake table.

    fake.json                          {"name", "created"}
    timeline/<seq>.<action>.<state>    JSON: {"at", "run"?, "files"?, "rows"?}; all states keep their files
    archive/                           the files of the oldest instants, after they are archived
    heartbeats/<seq>                   touched by the process that works on the instant
    sequence/<seq>                     created by the process that begins an instant
    scratch/                           files before they are moved to the timeline

A write adds `rows` and one log file. The plan of a compaction names log files by the instants that wrote them. The
compaction merges these into a new file version. A clustering rewrites the newest file version. A clean deletes the
versions that its plan names. An archive leaves no instant on the timeline.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from lakewarden.planners.model.instant import State

PROPERTIES = "fake.json"
TIMELINE = "timeline"
ARCHIVE = "archive"
HEARTBEATS = "heartbeats"
SEQUENCE = "sequence"
SCRATCH = "scratch"
FIRST_VERSION = "00000000"
"""The first file version of every table."""

WINDOW = timedelta(seconds=10)
"""The time after its last heartbeat in which an instant counts as worked on."""

_NAME = re.compile(r"(\d{8})\.(write|compaction|clustering|clean)\.(requested|inflight|completed)")


class FakeAction(StrEnum):
    """The action of an instant of a fake table."""

    WRITE = "write"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineFile:
    """The parts of the name of a timeline file."""

    time: str
    action: FakeAction
    state: State

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return f"{self.time}.{self.action}.{self.state.name.lower()}"


@functools.lru_cache(maxsize=4096)
def parse(name: str) -> TimelineFile | None:
    """Return the parts of a file name, or None if the file belongs to no instant."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return TimelineFile(time=found[1], action=FakeAction(found[2]), state=State[found[3].upper()])
