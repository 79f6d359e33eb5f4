"""What the store keeps besides runs: decisions, approvals, rests and quarantine, proofs of locks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId


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


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingRow:
    """How the last runs of one service of one table ended, as far as that holds it back: it survives the daemon.

    `strikes` are failures in a row, `tries` rests in a row; until `rest_until` it is left alone for `rest_reason`.
    `suspect`: a JVM died while it ran beside others, so it runs alone the next time. `quarantined` is why it waits for
    a person. `idle_*` is what it had seen of the table when it found nothing more to do. Until `smaller_until` a new
    plan is to rewrite no more than `largest_plan` bytes, for `smaller_reason`.
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
class LockProofRow:
    """What was seen of the lock that the options of a table name: see `planners/lock_proof.py`, Evidence. It is about
    the table with this `identity`.
    """

    table: TableId
    identity: str
    lock: str
    verdict: str
    witnessed: int
    several: bool
    without: str | None
    seen_at: datetime | None
