"""What the store remembers of the past: changes of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.service.model.rows import DecisionRow


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionChange:
    """A decision that began at `decision.decided_at` and held `until` the next one. None: it still holds.

    The numbers in its reason are those of its beginning. `number` is its place in the store.
    """

    decision: DecisionRow
    until: datetime | None = None
    number: int = 0
