"""How a fake table lies on disk.

    fake.json                          {"name", "created"}
    timeline/<seq>.<action>.<state>    JSON: {"at", "run"?, "files"?, "rows"?}; the states' files stay side by side
    archive/                           the oldest instants' files, once they are archived
    heartbeats/<seq>                   touched by whoever works on the instant
    sequence/<seq>                     taken by whoever begins an instant
    claims/claim.json                  who of several daemons acts on the table
    scratch/                           files on their way into the timeline

A write adds `rows` and one log file; a compaction merges the log files that its plan names (by the instants that
wrote them) into a new file version; a clustering rewrites the newest one; a clean deletes the versions that its plan
names. An archive puts nothing on the timeline.
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
CLAIM = "claims/claim.json"
FIRST_VERSION = "00000000"
"""The file version that every table begins with."""

WINDOW = timedelta(seconds=10)
"""How long after its last heartbeat an instant still counts as worked on."""

_NAME = re.compile(r"(\d{8})\.(write|compaction|clustering|clean)\.(requested|inflight|completed)")


class Action(StrEnum):
    """What an instant of a fake table does."""

    WRITE = "write"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineFile:
    """What the name of one timeline file says."""

    time: str
    action: Action
    state: State

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.time}.{self.action}.{self.state.name.lower()}"


@functools.lru_cache(maxsize=4096)
def parse(name: str) -> TimelineFile | None:
    """Return what a file name says; None if the file is no instant's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return TimelineFile(time=found[1], action=Action(found[2]), state=State[found[3].upper()])
