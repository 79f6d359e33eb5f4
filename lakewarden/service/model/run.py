"""A run: one attempt at one plan of one service, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import DecisionRow


class RunState(StrEnum):
    """The state of a run. UNKNOWN is no ending: the timeline will show how the run ended. YIELDED: the run stepped back
    by itself, for a writer or for an operator's approval, and its service runs again.
    """

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMMITTING = "COMMITTING"
    UNKNOWN = "UNKNOWN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    YIELDED = "YIELDED"

    @property
    def ended(self) -> bool:
        """Whether the run has ended for good."""
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.YIELDED)


class SupersededError(LakewardenError):
    """Another owner has taken the lease of the run since. A result of this owner is too late."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorNames:
    """The JVM of a run, and its application on a cluster, as the row of the run has them."""

    executor: str | None
    application: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at one plan of one service.

    `identity` is the identity of the table (leases use it as a key), and `table` its id. `reason` says why the run was
    requested, and `outcome` how it ended. `instant` is known when the plan is made. `step` is the last step with a
    permit: a run without one has not touched the table. `owner` has the lease of its epoch. `executor` is the JVM that
    carries it out (`ProcessIdentity.to_text`). It is known before the run may plan. `application` is set if that JVM
    drives executors on other machines (`ClusterApplication.to_text`). `rewrite_all` is the mark of the files that the
    run rewrites, if all were asked for (`TableView.rewrites_all`).
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
    application: str | None = None
    rewrite_all: str | None = None

    @property
    def executors(self) -> ExecutorNames:
        """Return what carries it out."""
        return ExecutorNames(executor=self.executor, application=self.application)

    @property
    def off_timeline(self) -> bool:
        """Whether its plan has no instant. A run may execute only after the instant of its plan, if any, is stored."""
        return self.instant is None and self.step in (Step.EXECUTE, Step.COMMIT)


# What the store remembers of the past: changes of decisions.


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionChange:
    """A decision that began at `decision.decided_at` and held `until` the next one. None: it still holds.

    The numbers in its reason are those of its beginning. `number` is its place in the store.
    """

    decision: DecisionRow
    until: datetime | None = None
    number: int = 0
