"""A run: one attempt at one plan of one service, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import ReplicaId


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
    for which a permit was granted: a run without one has not touched the table. `owner` has the lease of its epoch;
    `executor` is the JVM that carries it out (`ProcessIdentity.to_text`), known before it may plan.
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
    owner: ReplicaId | None = None
    executor: str | None = None

    @property
    def off_timeline(self) -> bool:
        """Whether its plan has no instant: a run may execute only when the instant of its plan, if any, is stored."""
        return self.instant is None and self.step in (Step.EXECUTE, Step.COMMIT)
