"""What was decided about one service of one table, always with a reason a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Run it now. `instant` is the pending plan to take up; None asks for a new plan."""

    reason: str
    instant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NotDue:
    """Nothing to do yet; `again_at` is when time alone could change that (None: only a change can)."""

    reason: str
    again_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """It would be due but must not run; `remedy` says who has to do what, `again_at` when to look again."""

    reason: str
    remedy: str | None = None
    again_at: datetime | None = None


Decision = Due | NotDue | Blocked
