"""How long it takes until what was struck is whole again, and what the time went into."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewarden.planners.model.instant import Service

_GUARDED = "guarded by the heartbeat"
_RESTS = "backing off"
_LONGEST_GLANCE_SECONDS = 1.0
"""What a Block is thought to have lasted when nobody had looked for longer."""


@dataclass(kw_only=True)
class Recovery:
    """One strike's, in seconds of the machine's monotonic clock.

    It is over when the struck run has ended in the store and what it left pending is pending no more. `heartbeat` and
    `rest` are how much of it the service was Blocked by a heartbeat, and by a rest after a failure.
    """

    service: Service
    run: str | None
    pending: Collection[str]
    struck_at: float
    whole_at: float | None = None
    heartbeat: float = 0.0
    rest: float = 0.0
    _looked_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether all is whole again."""
        return self.whole_at is not None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it is not over."""
        return None if self.whole_at is None else self.whole_at - self.struck_at

    def look(self, *, active: Collection[str], pending: Collection[str], blocked: str, at: float) -> None:
        """Look once more: which runs are active, which instants pending, and why the service is Blocked, if it is."""
        if self.over:
            return
        waited = min(_LONGEST_GLANCE_SECONDS, at - (self.struck_at if self._looked_at is None else self._looked_at))
        self._looked_at = at
        if _GUARDED in blocked:
            self.heartbeat += waited
        elif blocked.startswith(_RESTS):
            self.rest += waited
        if self.run not in active and not set(self.pending) & set(pending):
            self.whole_at = at
