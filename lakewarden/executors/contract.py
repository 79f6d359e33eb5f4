"""The contract between the daemon and the workers that carry out its runs. Free of Spark.

daemon ── Assignment ──► pool ──► program.open(session, assignment, storage) as steps
       ◄── Asked(plan) ──         each step asks for a permit before it changes the table
       ─── Permit ──────►         steps.plan -> steps.execute -> steps.commit
       ◄── Ended(outcome) ─
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage

GOES_ON = "goes_on"
"""The key of a figure. It is 1 if the run did a part of the work and is due again at once. Else it is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """One run, as a worker gets it. `catalog`, `table_options` and `service_options` are the format's settings as JSON
    (`model_dump(mode="json")`). The program reads them back with the types that the format declares. `catalog` is None
    for a table that is found by its path.

    - `instant` is the pending plan to take up. None asks for a new plan.
    - `largest_share` is the share of the table's data files, in percent, that the run may delete. It asks a deleting
      service to count the files, as far as the decision needs it. `most_files` is how many files the run may delete.
    - `last_beats` is when the heartbeats of writes in flight were last seen. A single observation cannot tell a write
      that has removed its heartbeat from one that never had any. `stopped_beats` is when a heartbeat that had been seen
      was first missing.
    - `largest_plan` is how many bytes a new plan may rewrite, if the service can choose.
    - `retries` is how often in a row the last runs yielded. A smaller plan may succeed.
    - `rewrite_all` is the mark of a rewrite of all files (`TableView.rewrites_all`). None: what the service finds due.
    - `retained`: an operator has approved a deletion that keeps everything from this commit on. A new plan keeps at
      least that (`Plan.retained`).
    - `session_conf` is Spark configuration for the run's own session.
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
    last_beats: Mapping[str, datetime] = field(default_factory=dict)
    stopped_beats: Mapping[str, datetime] = field(default_factory=dict)
    largest_plan: int | None = None
    retries: int = 0
    rewrite_all: str | None = None
    retained: str | None = None
    session_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run is going to do: sizes in file groups, bytes, files, partitions and (archived) instants.

    `bytes_to_delete` and `versions_to_delete` (snapshots that go) are shown to people. None: they were not counted.

    `instant` is its plan on the timeline. None for a service that puts none there. Then the timeline shows how the run
    ended only if its commit bears the run's name (Iceberg's rewrites). Else (Hudi's archive) the service runs again
    when it is due. `files_to_delete` and `partitions_to_delete` are compared with the table's deletion budget.
    `files_in_table` is the base of its percentage. It may be a lower bound that suffices to show that the deletion is
    within the budget.

    `ends_with_run`: the plan leaves the timeline if the run does not carry it out. An approved deletion is then planned
    anew, and keeps everything from the commit `retained` on. None if the plan does not say it.
    """

    instant: str | None
    file_groups: int | None = None
    bytes: int | None = None
    files_to_delete: int | None = None
    partitions_to_delete: int | None = None
    bytes_to_delete: int | None = None
    versions_to_delete: int | None = None
    files_in_table: int | None = None
    instants: int | None = None
    ends_with_run: bool = False
    retained: str | None = None

    @property
    def on_timeline(self) -> str:
        """Return the plan's instant. Raises ValueError if the plan is not on the timeline."""
        if self.instant is None:
            raise ValueError("this plan has no instant")
        return self.instant


@dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """The run may take the step now. The worker's JVM is killed if a joined step stands still: none of its Spark tasks
    has ended for `expires`. It is also killed if the step has not ended within `at_most`. None: no limit while tasks
    end.
    """

    reason: str = ""
    expires: timedelta | None = None
    at_most: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Not yet. The question stays open and is judged again. It is never sent to a worker."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """The run must not take the step. It aborts, leaves the table as it is, and ends as Yielded."""

    reason: str


Permit = Granted | Wait | Refused


class FailureKind(StrEnum):
    """Failures, named by what the daemon does next."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Succeeded:
    """The step `commit` returned. `figures` are the format's own numbers (files written, files deleted, ...), with
    their unit in the name.
    """

    figures: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingToDo:
    """The format found nothing to plan. The run has succeeded. There may be something after `again`, even if no writer
    writes meanwhile. None if only a change of the table can bring work.
    """

    reason: str
    again: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Yielded:
    """The run yielded: a permit was refused, the run was cancelled, or a writer went first. Its plan may be pending.
    After `delay` the run may be tried again.
    """

    reason: str
    delay: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The run ended with an error in `step`. If the commit permit was granted, only the timeline tells what happened.

    `delay` is when a temporary failure may be tried again.
    """

    kind: FailureKind
    reason: str
    step: Step
    delay: timedelta = timedelta(seconds=10)


Outcome = Succeeded | NothingToDo | Yielded | Failed


class Steps(Protocol):
    """The three steps of one run, in this order. Each needs a permit."""

    def plan(self) -> Plan | NothingToDo | None:
        """Put a plan on the timeline, or take up the assigned one. Return NothingToDo, with a reason, or None if there
        is nothing to do.
        """
        ...

    def execute(self, plan: Plan) -> None:
        """Do the work that can be done without a commit. If the format joins it with the commit, do nothing."""
        ...

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant, and return figures for people. Raises UnknownError if the outcome is not known."""
        ...


class Program(Protocol):
    """One service of one format, run inside a worker.

    `open` is a context manager that owns the format's client. At its end it frees everything and deletes no data file.
    Every step translates foreign exceptions into TemporaryError, PermanentError or UnknownError.
    """

    def open(self, session: Any, assignment: Assignment, storage: Storage) -> AbstractContextManager[Steps]:
        """Open the client for one run, with a Spark session of its own. `storage` reads the table without Spark."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatPrograms:
    """The programs of one format, by service. `release` closes what they keep open between runs, before their
    JVM ends.
    """

    programs: Mapping[Service, Callable[[], Program]]
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A worker has begun the run in the JVM `executor` (`ProcessIdentity.to_text`, None if it is not known).

    `application` is set if that JVM only drives executors on other machines (`ClusterApplication.to_text`).
    """

    run: RunId
    executor: str | None = None
    application: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A run asks for the permit for its next step, and waits for the answer. `plan` is None before planning."""

    run: RunId
    step: Step
    plan: Plan | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A run has ended, with the outcome that its worker saw."""

    run: RunId
    outcome: Outcome


class Blame(StrEnum):
    """Whether a run is the cause of the death of its worker."""

    ITS_OWN = "its own"
    """The run was alone in the JVM, or the worker was killed because the run's step outlived its permit."""
    UNKNOWN = "unknown"
    """The JVM died or hung while the run was in it beside others. It is not known which run was the cause."""
    NOT_ITS = "not its"
    """The daemon killed the worker for another reason: the pool was closed, the lease was lost, or another run hung."""


class WorkerEnd(StrEnum):
    """Why a session worker ended that is started again."""

    DIED = "died"
    """Its process ended, and the daemon had not killed it."""
    KILLED = "killed"
    """The daemon killed it, because its JVM did not answer or one of its runs did not end."""
    EVICTED = "evicted"
    """The daemon killed it, because the lease of the replica was lost or late."""
    REPLACED = "replaced"
    """It had taken many runs, was old, or its memory had grown."""
    RESTED = "rested"
    """It had had no run for a while. It is started again when a run waits for it."""
    NOT_STARTED = "not_started"
    """Its process could not be started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """The worker of a run is dead, and so is its JVM. Only the timeline tells what happened to the run."""

    run: RunId
    reason: str
    blame: Blame = Blame.ITS_OWN


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityChanged:
    """A worker became ready or ended. There may be more or fewer slots."""

    reason: str


PoolEvent = Started | Asked | Ended | Lost | CapacityChanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """Slots of the pool: how many there are, and how many are free. `in_use` counts every run in a worker, also in one
    that takes no new run and therefore has no slot. `resting` are the slots of workers that are not started, because no
    run waits for them. `held` says why the pool starts no run now, or only one, although its workers are up.
    """

    slots: int
    free: int
    in_use: int = 0
    resting: int = 0
    held: str | None = None


# What a run does in its worker at the moment. It is shown to people. Nothing is decided on it.


@dataclass(frozen=True, kw_only=True, slots=True)
class StagesDone:
    """The Spark stages of a run that are known so far. Spark tells the stages of a job when the job begins.

    `stage` is the name of a stage at work. `bytes_read` and `bytes_written` are those of the tasks that ended, with
    what they shuffled left out. `core_seconds` is how long tasks occupied a core.
    """

    jobs: int = 0
    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_active: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    core_seconds: float = 0.0
    stage: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress:
    """What one run does now. `step` is the last step that it was permitted. `bytes` and `file_groups` are the size of
    its plan, if the plan is made and says it.
    """

    run: RunId
    step: Step | None = None
    bytes: int | None = None
    file_groups: int | None = None
    done: StagesDone = StagesDone()


class Pool(Protocol):
    """All session workers of one `spark` profile.

    Every method returns at once. Events are passed, from any thread, to the function given to `start`. For each
    submitted run there is exactly one Ended or Lost, and it is the last event of the run.
    """

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """Start the workers. CapacityChanged is sent when one is ready."""
        ...

    def capacity(self) -> Capacity:
        """Return the present slots."""
        ...

    def need(self, runs: int) -> None:
        """Say how many runs wait for a slot, anew whenever that may have changed. Workers that rest are started for
        them.
        """
        ...

    def submit(self, assignment: Assignment) -> None:
        """Give a run to a free slot. Raises TemporaryError if there is none."""
        ...

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Answer a run's question. If the run has ended, the answer is ignored."""
        ...

    def cancel(self, run: RunId, reason: str) -> None:
        """Ask a run to stop. It ends as Yielded. If it does not end within the profile's grace, it ends as Lost."""
        ...

    def advanced_at(self, run: RunId) -> float | None:
        """Return when a Spark task of the run was last seen to end, on the machine's monotonic clock. None if no task
        has ended, or the run is gone.
        """
        ...

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return what the runs in the workers do, as far as it is known. Any thread may call it."""
        ...

    def extend(self, until: float) -> None:
        """Let the workers live until this moment of the machine's monotonic clock. Without a later call they end then.

        The workers watch the clock themselves, and kill their JVM at that moment, because a frozen daemon cannot.
        """
        ...

    def evict(self, reason: str) -> None:
        """Kill every worker and its JVM now, and return when they are gone. New ones are started. Any thread may call
        it.
        """
        ...

    def close(self) -> None:
        """Kill every worker and its JVM at once, and return when they are gone. Runs in progress end as Lost."""
        ...
