"""What the daemon and whoever carries out its runs agree on. Free of Spark.

daemon ── Assignment ──► pool ──► program.open(session, assignment, storage) as steps
       ◄── Asked(plan) ──       each step asks leave before it changes the table
       ─── Permit ──────►       steps.plan -> steps.execute -> steps.commit
       ◄── Ended(outcome) ─
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage


class Step(StrEnum):
    """The three steps of every program."""

    PLAN = "plan"
    EXECUTE = "execute"
    COMMIT = "commit"


GOES_ON = "goes_on"
"""The figure of a run that did a part of what there is to do, and is due again at once: 1 there, and not there else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """One run, as a worker gets it. `catalog` (None for a table that is found by its path), `table_options` and
    `service_options` are the format's settings as JSON (`model_dump(mode="json")`), read back by the program with the
    types the format declares.

    `instant` is the pending plan to take up; None asks for a new one. `predecessor_dead`: the JVM that was at it before
    is proved dead, so the heartbeat that it left guards nobody and may be removed. `largest_share` is
    the share of the table's data files, in percent, that the run may delete: it asks a deleting service to count them,
    as far as judging it takes; `most_files` is how many it may delete. `last_beats` is when the writes in flight were
    last seen to give a sign of life: whoever looks at them once cannot tell one that has taken its heartbeat away from
    one that never had any. `stopped_beats` is when one was first seen gone, of those that were.
    `largest_plan` is how many bytes a new plan may rewrite, where a service can choose. `stepped_back` is how often in
    a row its last runs came to nothing: a smaller slice may get through. `session_conf` is Spark configuration for the
    run's own session.
    """

    run: RunId
    epoch: int
    table: TableId
    format: str
    location: str
    service: Service
    instant: str | None = None
    catalog: Mapping[str, Any] | None = None
    table_options: Mapping[str, Any] = field(default_factory=dict)
    service_options: Mapping[str, Any] = field(default_factory=dict)
    largest_share: float | None = None
    most_files: int | None = None
    predecessor_dead: bool = False
    last_beats: Mapping[str, datetime] = field(default_factory=dict)
    stopped_beats: Mapping[str, datetime] = field(default_factory=dict)
    largest_plan: int | None = None
    stepped_back: int = 0
    session_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run is going to do: sizes in file groups, bytes, files, partitions and (archived) instants.

    `instant` is its plan on the timeline; None for a service that puts none there. Its ending the timeline tells only
    where what it commits bears the run's name (Iceberg's rewrites); else (Hudi's archive) it is asked for again when
    it is due. What a deleting service would delete is held against
    the table's deletion budget; `files_in_table` is what its percentage counts from, or at least so many that the
    deletion is within it.
    """

    instant: str | None
    file_groups: int | None = None
    bytes: int | None = None
    files_to_delete: int | None = None
    partitions_to_delete: int | None = None
    files_in_table: int | None = None
    instants: int | None = None

    @property
    def on_timeline(self) -> str:
        """Return the plan's instant. Raises ValueError for a plan that is not on the timeline."""
        if self.instant is None:
            raise ValueError("this plan has no instant")
        return self.instant


@dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """Take the step now. A joined step is ended by killing its JVM when none of its Spark tasks has ended for as long
    as `expires`, or when it has not ended within `at_most` although they do (None: as long as they do).
    """

    reason: str = ""
    expires: timedelta | None = None
    at_most: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Not yet: the question stays open and is judged again. Never sent to a worker."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """Do not take the step: abort, leaving the table as it is, and end as Yielded."""

    reason: str


Permit = Granted | Wait | Refused


class FailureKind(StrEnum):
    """Failures, named by what the daemon does next."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Succeeded:
    """The step `commit` returned. `figures` are the format's own numbers (files written, files deleted, ...),
    with their unit in the name.
    """

    figures: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingToDo:
    """The format found nothing to plan: a good ending. There may be something after `again`, also if nobody writes to
    the table meanwhile; None where nothing but a change of it can bring some.
    """

    reason: str
    again: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Yielded:
    """The run stepped back (a permit was refused, it was cancelled, or it made way for a writer); what it planned may
    be pending. After `delay` it is worth another try.
    """

    reason: str
    delay: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The run ended with an error in `step`. After the commit permit was granted, only the timeline knows more.

    `delay` is when a temporary failure is worth another try.
    """

    kind: FailureKind
    reason: str
    step: Step
    delay: timedelta = timedelta(seconds=10)


Outcome = Succeeded | NothingToDo | Yielded | Failed


class Steps(Protocol):
    """The three steps of one run, in this order, each after its permit."""

    def plan(self) -> Plan | NothingToDo | None:
        """Put a plan on the timeline, or take up the assigned one. None: there is nothing to do; a program that knows
        more about why says so.
        """
        ...

    def execute(self, plan: Plan) -> None:
        """Do the work that can be done without committing it. Nothing where the format joins it with commit."""
        ...

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant; returns figures for people. Raises UnknownError if the ending is not known."""
        ...


class Program(Protocol):
    """One service of one format, run inside a worker.

    `open` is a bracket that owns the format's client: leaving it frees everything and deletes no data file.
    Every step translates foreign exceptions into TemporaryError, PermanentError or UnknownError.
    """

    def open(self, session: Any, assignment: Assignment, storage: Storage) -> AbstractContextManager[Steps]:
        """Open the client for one run, with a Spark session of its own. `storage` reads the table without Spark."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A worker has taken the run up, in the JVM `executor` (`ProcessIdentity.to_text`; None where it is not known)."""

    run: RunId
    executor: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A run asks leave for its next step and stands still until it is answered. `plan` is None before planning."""

    run: RunId
    step: Step
    plan: Plan | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A run has ended, as its worker saw it."""

    run: RunId
    outcome: Outcome


class Blame(StrEnum):
    """Whose fault it is, as far as a run is concerned, that its worker is dead."""

    ITS_OWN = "its own"
    """It was alone in the JVM, or the worker was killed for its sake: its step outlived its permit."""
    ANYBODYS = "anybody's"
    """The JVM died, or hung, while the run was in it beside others: nobody knows who it was."""
    NOT_ITS = "not its"
    """We killed the worker for another reason: the pool was closed, the lease was lost, another run hung in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """The worker of a run is dead, and so is its JVM: what became of the run, only the timeline can tell."""

    run: RunId
    reason: str
    blame: Blame = Blame.ITS_OWN


@dataclass(frozen=True, kw_only=True, slots=True)
class RoomChanged:
    """A worker became ready, or went away: there may be more or fewer slots."""

    reason: str


PoolEvent = Started | Asked | Ended | Lost | RoomChanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """Slots of the pool: how many there are, and how many are free."""

    slots: int
    free: int


class Pool(Protocol):
    """All session workers of one `spark` profile.

    Every method returns at once; what happens is told, from any thread, to the function given to `start`.
    For each submitted run exactly one Ended or Lost is told, and it is the last thing told of it.
    """

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """Start the workers. RoomChanged is told when one is ready."""
        ...

    def room(self) -> Room:
        """Return the slots there are now."""
        ...

    def submit(self, assignment: Assignment) -> None:
        """Give a run to a free slot. Raises TemporaryError where there is none."""
        ...

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Answer a run's question. An answer for a run that is gone is ignored."""
        ...

    def cancel(self, run: RunId, reason: str) -> None:
        """Ask a run to stop: it ends as Yielded, or, where it does not within the profile's grace, as Lost."""
        ...

    def advanced_at(self, run: RunId) -> float | None:
        """Return when a Spark task of the run was last seen to end, on the machine's monotonic clock; None where none
        was, or the run is gone.
        """
        ...

    def extend(self, until: float) -> None:
        """Let the workers live until this moment of the machine's monotonic clock, and no longer unless it is extended.

        They watch it themselves, and kill their JVM when it passes: a daemon that is frozen cannot.
        """
        ...

    def evict(self, reason: str) -> None:
        """End every worker and its JVM now, and return when they are gone; new ones are started. Safe in any thread."""
        ...

    def close(self) -> None:
        """End every worker and its JVM, at once, and return when they are gone. Running runs end as Lost."""
        ...
