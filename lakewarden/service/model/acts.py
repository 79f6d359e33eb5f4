"""Acts: what persons and programs change through the API and the command line. The audit log keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId


class ActKind(StrEnum):
    """What was done."""

    RUN_REQUESTED = "run_requested"
    REWRITE_WITHDRAWN = "rewrite_withdrawn"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETION_APPROVED = "deletion_approved"
    BARRIER_ASKED = "barrier_asked"
    BARRIER_LIFTED = "barrier_lifted"
    RUN_CANCELLED = "run_cancelled"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    DRAINED = "drained"
    RELOADED = "reloaded"
    TABLE_REGISTERED = "table_registered"
    REGISTRATION_CHANGED = "registration_changed"
    TABLE_REMOVED = "table_removed"
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One act of a caller. `number` orders the acts of a store. The store gives it.

    `who` is the name of the caller, and `key` the id of its API key. None if no key was asked for. `before` and `after`
    are what the act changed, in words. `table` and `service` are None if the act is not about one.
    """

    at: datetime
    who: str
    key: str | None
    kind: ActKind
    table: TableId | None = None
    service: Service | None = None
    before: str | None = None
    after: str | None = None
    number: int = 0
