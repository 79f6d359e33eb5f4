"""What a table, its store, its writer and its executors have left behind, as one value that can be judged."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.demo.writers.record import Batch, Row
from live.journey import Journey

SUCCEEDED = "SUCCEEDED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """One step of one run on one instant, in seconds of the machine's monotonic clock. `until` is when it ended or
    was cut off by the death of its JVM, and infinite where it did neither.
    """

    run: str
    epoch: int
    table: str
    service: str
    instant: str | None
    step: str
    begun: float
    until: float = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """One row of the store's `runs`, in the order in which they were requested."""

    id: str
    identity: str
    service: str
    state: str
    instant: str | None
    epoch: int
    ended: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineFound:
    """A timeline. `completed` are the active completed instants, each with what it did: the name of a service of
    ours, or Hudi's own word. `archived` are instants that have left the active timeline.
    """

    completed: Mapping[str, str] = field(default_factory=dict)
    pending: Collection[str] = ()
    archived: Collection[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything that the checker judges.

    `expected` are the rows by the writer's record, `found` those that a foreign reader finds; `needed` are the files
    that each retained instant refers to, and `files` those that are there. `journeys` are queries of retained
    instants.
    """

    expected: Mapping[str, Row] = field(default_factory=dict)
    found: Mapping[str, Row] = field(default_factory=dict)
    needed: Mapping[str, Collection[str]] = field(default_factory=dict)
    files: Collection[str] = ()
    timeline: TimelineFound = TimelineFound()
    intervals: Sequence[Interval] = ()
    runs: Sequence[StoredRun] = ()
    journeys: Sequence[Journey] = ()
    failures: Sequence[Batch] = ()
