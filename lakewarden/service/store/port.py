"""The store's contract: runs, leases' epochs, decisions, pauses and approvals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId


class RunState(StrEnum):
    """Where a run stands. UNKNOWN is not an ending: it waits for the timeline to say."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMMITTING = "COMMITTING"
    UNKNOWN = "UNKNOWN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at one plan of one service.

    `identity` is what the table is (leases key on it), `table` what it is called. `reason` says why it was
    asked for, `outcome` how it ended. `instant` is known from the moment the plan is. `step` is the last step
    for which a permit was granted: a run without one has not touched the table.
    """

    id: RunId
    table: TableId
    identity: str
    service: Service
    state: RunState
    reason: str
    requested_by: str
    created_at: datetime
    instant: str | None = None
    epoch: int = 0
    step: Step | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    figures: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def off_timeline(self) -> bool:
        """Whether its plan has no instant: a run may execute only when the instant of its plan, if any, is stored."""
        return self.instant is None and self.step in (Step.EXECUTE, Step.COMMIT)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionRow:
    """The last decision on one service of one table, kept so that people can ask what was really decided."""

    table: TableId
    service: Service
    decision: str
    reason: str
    remedy: str | None
    again_at: datetime | None
    decided_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRow:
    """A deletion beyond its table's budget that was shown to people, and who has approved it, if anybody has.

    `files` and `partitions` would be deleted; `files_in_table` were counted in the table with this `identity`.
    """

    table: TableId
    service: Service
    identity: str
    instant: str | None
    files: int
    files_in_table: int | None
    partitions: int
    asked_at: datetime
    approved_by: str | None = None
    approved_at: datetime | None = None


class SupersededError(LakewardenError):
    """Another owner has taken the lease since: whatever this owner says of the run is too late."""


class Store(Protocol):
    """Keeps what must survive the daemon. Every method is durable when it returns.

    Raises TemporaryError where the database cannot be reached or written.
    """

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the run of the same (identity, service) that has not ended."""
        ...

    def claim(self, run: RunId, *, owner: str, at: datetime) -> Run:
        """Take the lease of the run's (identity, service) with a new, higher epoch; the run is RUNNING.

        Raises SupersededError if the run is no longer QUEUED.
        """
        ...

    def progress(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
    ) -> Run:
        """Note how far a run has come; what is None stays as it was.

        Raises SupersededError if `epoch` is not the newest of the lease, or the run has ended.
        """
        ...

    def end(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState,
        outcome: str,
        at: datetime,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """End a run. Raises SupersededError as `progress` does."""
        ...

    def epoch(self, *, identity: str, service: Service) -> int:
        """Return the newest epoch of a lease; 0 if it was never claimed."""
        ...

    def run(self, run: RunId) -> Run | None:
        """Return one run."""
        ...

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first. No `states` means all."""
        ...

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        ...

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up, the last thousand."""
        ...

    def decided(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions, each in place of the one before."""
        ...

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        ...

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or everything where `table` is None."""
        ...

    def resume(self, table: TableId | None) -> None:
        """End a pause. Nothing happens where there is none."""
        ...

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason; the global one under None."""
        ...

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a question for approval, or its answer, in place of the one before of the same table and service."""
        ...

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Drop what was asked and approved. Nothing happens where there is nothing."""
        ...

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every question for approval, answered or not."""
        ...

    def forget(self, *, before: datetime) -> int:
        """Delete ended runs that ended before a time, keeping each service's last one; return how many."""
        ...

    def close(self) -> None:
        """Release the database."""
        ...
