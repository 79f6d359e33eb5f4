"""The rows of the store besides runs: decisions, approvals, backoff and quarantine, lock proofs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.model.decision import OTHER, Blocked, Decision, DoesNotApply, Due, NotDue, WouldRun, remedy_of
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import size
from lakewarden.planners.model.table import TableId


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionRow:
    """The last decision on one service of one table. It is kept so that operators can read what was really decided."""

    table: TableId
    service: Service
    decision: str
    reason: str
    remedy: str | None
    again_at: datetime | None
    decided_at: datetime
    code: str = OTHER

    @classmethod
    def of(cls, table: TableId, service: Service, decision: Decision, at: datetime) -> DecisionRow:
        """Return the row of a decision."""
        return cls(
            table=table,
            service=service,
            decision=type(decision).__name__,
            reason=decision.reason,
            remedy=remedy_of(decision),
            again_at=decision.again_at if isinstance(decision, NotDue | Blocked) else None,
            decided_at=at,
            code=decision.code,
        )

    def as_decision(self) -> Decision:
        """Return the decision. The instant of a service that was due is not kept."""
        match self.decision:
            case "Due":
                return Due(reason=self.reason)
            case "Blocked":
                return Blocked(code=self.code, reason=self.reason, remedy=self.remedy, again_at=self.again_at)
            case "WouldRun":
                return WouldRun(reason=self.reason)
            case "DoesNotApply":
                return DoesNotApply(reason=self.reason)
            case _:
                return NotDue(code=self.code, reason=self.reason, again_at=self.again_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRow:
    """A deletion that was shown to operators, and the operator who has approved it, if any.

    `files`, `bytes`, `partitions` and `versions` would be deleted. `files_in_table` were counted in the table with this
    `identity`. It is shown because it is beyond the budget, because it is the `first` of the table, or because its
    policy keeps less than was kept before (`shorter` says it).

    `instant` is the plan, if it waits on the timeline. Else an approved deletion is planned anew. It then keeps
    everything from the commit `retained` on; None if the plan that was shown did not say it.
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
    first: bool = False
    shorter: str | None = None
    retained: str | None = None
    bytes: int | None = None
    versions: int | None = None

    @property
    def deletes(self) -> str:
        """Return what is deleted, in words: "30 of 36 files (2.0 KiB) for good; everything from commit 20260301 on
        stays".
        """
        of = "" if self.files_in_table is None else f" of {self.files_in_table:,}"
        files = "1 file" if self.files == 1 and not of else f"{self.files:,}{of} files"
        partitions = f" and {self.partitions:,} partition{'s'[: self.partitions - 1]}" if self.partitions else ""
        size_in_words = "" if self.bytes is None else f" ({size(self.bytes)})"
        versions = "" if not self.versions else f"; {self.versions:,} version{'s'[: self.versions - 1]} of the table go"
        stays = "" if self.retained is None else f"; everything from commit {self.retained} on stays"
        return f"{files}{size_in_words}{partitions} for good{versions}{stays}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteRow:
    """A rewrite of all files that an operator has asked for, and that has not ended.

    `mark` tells the files that the table with this `identity` had when it was `asked_at` (`TableView.rewrites_all`).
    """

    table: TableId
    service: Service
    identity: str
    mark: str
    asked_by: str
    asked_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStateRow:
    """What the last runs of one service of one table mean for the next one. It survives the daemon.

    `strikes` are failures in a row, `tries` are backoffs in a row. The backoff lasts until `rest_until`, for
    `rest_reason`. `suspect`: a JVM died while the run was in it together with others, so the service runs alone the
    next time. `quarantined` is why it waits for an operator. `idle_*` is what the service had seen of the table when it
    found nothing more to do. Until `smaller_until` a new plan may rewrite no more than `largest_plan` bytes, for
    `smaller_reason`.
    """

    table: TableId
    service: Service
    tries: int = 0
    strikes: int = 0
    suspect: bool = False
    rest_until: datetime | None = None
    rest_reason: str | None = None
    quarantined: str | None = None
    idle_after: str | None = None
    idle_commits: int = 0
    idle_rewrites: int = 0
    idle_at: datetime | None = None
    largest_plan: int | None = None
    smaller_until: datetime | None = None
    smaller_reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterSignsRow:
    """When a hook of a table, and a heartbeat of a write, were first seen. None: not yet."""

    table: TableId
    hook_at: datetime | None = None
    beat_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderRow:
    """A digest of the folder of a table that its catalog names. It is about the table with this `location`."""

    table: TableId
    location: str
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LockProofRow:
    """The evidence about the lock in the options of a table: see `planners/lock_proof.py`, Evidence.

    It is about the table with this `identity`.
    """

    table: TableId
    identity: str
    lock: str
    verdict: str
    witnessed: int
    several: bool
    without: str | None
    seen_at: datetime | None
