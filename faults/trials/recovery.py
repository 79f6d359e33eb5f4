"""How long the recovery from a fault takes, and how the time was spent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewarden.planners.model.instant import Service

_GUARDED = "guarded by the heartbeat"
_RESTS = "backing off"
_LONGEST_GLANCE_SECONDS = 1.0
"""The assumed length of a Block if there was no observation for longer."""


@dataclass(kw_only=True)
class Recovery:
    """The recovery from one fault, in seconds of the machine's monotonic clock.

    It is over when the struck run has ended in the store and the instants that it left pending are pending no more.
    `heartbeat` is the part of the recovery in which a heartbeat Blocked the service. `rest` is the part in which a
    delay after a failure did.
    """

    service: Service
    run: str | None
    pending: Collection[str]
    injected_at: float
    recovered_at: float | None = None
    heartbeat: float = 0.0
    rest: float = 0.0
    _looked_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether the recovery is over."""
        return self.recovered_at is not None

    @property
    def seconds(self) -> float | None:
        """How long the recovery took; None until it is over."""
        return None if self.recovered_at is None else self.recovered_at - self.injected_at

    def look(self, *, active: Collection[str], pending: Collection[str], blocked: str, at: float) -> None:
        """Observe once more: the active runs, the pending instants, and why the service is Blocked, if it is."""
        if self.over:
            return
        waited = min(_LONGEST_GLANCE_SECONDS, at - (self.injected_at if self._looked_at is None else self._looked_at))
        self._looked_at = at
        if _GUARDED in blocked:
            self.heartbeat += waited
        elif blocked.startswith(_RESTS):
            self.rest += waited
        if self.run not in active and not set(self.pending) & set(pending):
            self.recovered_at = at
