"""What a table, its store, its writer and its executors have left behind, as one value that can be judged."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.demo.writers.orders import Batch, Row
from lakewarden.planners.model.instant import Step
from live.journey import Journey

SUCCEEDED = "SUCCEEDED"

EXCLUSIVE = frozenset({"compaction", "log_compaction", "clustering", "clean"})
"""Services with exactly one run for every instant: nothing else executes them in the fault suite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """One step of one run on one instant, in seconds of the machine's monotonic clock. `until` is when the step ended,
    or when its JVM died. It is infinite if neither happened.
    """

    run: str
    epoch: int
    table: str
    service: str
    instant: str | None
    step: Step
    begun: float
    until: float = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """One row of the store's `runs`. The rows are in the order in which the runs were requested. An `idle` run found
    nothing to do.
    """

    id: str
    identity: str
    service: str
    state: str
    instant: str | None
    epoch: int
    ended: bool
    idle: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineFound:
    """A timeline. `completed` are the active completed instants, each with its action: the name of a service of
    Lakewarden, or the format's own word. `archived` are instants that have left the active timeline. `authors` are the
    runs that the instants themselves name, if the format shows them.
    """

    completed: Mapping[str, str] = field(default_factory=dict)
    pending: Collection[str] = ()
    archived: Collection[str] = ()
    authors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything that the checker judges.

    `expected` are the rows by the writer's record, `found` those that a foreign reader finds; `needed` are the files
    that each retained instant refers to, and `files` those that are there. `journeys` are queries of retained
    instants. `twice` are keys that a foreign reader finds in several rows. `changed` are our instants with other rows
    than before them, each with the number of rows.

    A run of an `exclusive` service has succeeded on each completed instant of it. A run of a service that is `signed`
    leaves its name on an instant, unless it found nothing to do.
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
    twice: Collection[str] = ()
    changed: Mapping[str, int] = field(default_factory=dict)
    exclusive: Collection[str] = EXCLUSIVE
    signed: Collection[str] = ()
