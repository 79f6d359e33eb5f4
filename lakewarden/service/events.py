"""The events of the daemon, for listeners such as metrics, logs and the demo. The daemon does not know the listeners.

The events of the replica lease come from its own threads, all others from the control thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakewarden.executors.contract import Permit, Plan
from lakewarden.planners.model.decision import Decision
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run
from lakewarden.service.model.table_sources import FoundTables
from lakewarden.service.rules.writer_failures import Blamed


class Listener:
    """Every event is a method that does nothing. A listener overrides the events that it needs, and must not raise."""

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Note that a decision has a new outcome or a new reason. A start alone is no change."""

    def unblocked(self, table: Table, service: Service, decision: Decision) -> None:
        """Note that a service that was blocked is blocked no more."""

    def requested(self, run: Run) -> None:
        """Note that a run was queued."""

    def started(self, run: Run) -> None:
        """Note that a worker got the run."""

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Note that a request for a permit was answered, after this time."""

    def ended(self, run: Run) -> None:
        """Note that a run ended (or became UNKNOWN)."""

    def poll_failed(self, table: Table, reason: str) -> None:
        """Note that a table could not be observed."""

    def discovered(self, source: str, listing: FoundTables) -> None:
        """Note that a source has answered."""

    def discovery_failed(self, source: str, reason: str) -> None:
        """Note that a source could not answer."""

    def warned(self, table: Table, warning: str) -> None:
        """Note that something about the settings of a table is worth a warning, although it blocks nothing."""

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Note that a failure of a writer of a table is new."""

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        """Note that an operator approved a deletion beyond the budget."""

    def joined(self, replica: ReplicaId) -> None:
        """Note that the daemon has become this replica."""

    def renewal_failed(self, reason: str) -> None:
        """Note that a renewal failed, and is tried again."""

    def lease_lost(self, reason: str) -> None:
        """Note that the replica may act on no table any more."""

    def adopted(self, run: Run) -> None:
        """Note that a run of a dead replica was taken over."""

    def rejected(self, run: Run, reason: str) -> None:
        """Note that the store rejected an update of a run, because another replica has its lease."""


class Listeners(Listener):
    """Passes each event to several listeners, in order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.listeners = tuple(listeners)


def _passed_on(event: str) -> Callable[..., None]:
    def pass_on(listeners: Listeners, *facts: Any, **named: Any) -> None:
        for listener in listeners.listeners:
            getattr(listener, event)(*facts, **named)

    return pass_on


for EVENT in [name for name in vars(Listener) if not name.startswith("_")]:
    setattr(Listeners, EVENT, _passed_on(EVENT))


# Log lines that others can cause without end are logged a few times a minute, and counted.

_MINUTE_SECONDS = 60.0
_KINDS = 1000


@dataclass(slots=True)
class _Minute:
    began: float
    told: int = 0
    withheld: int = 0


class Sampler:
    """Decides what is logged of each kind. Any thread may call every method."""

    def __init__(self, *, per_minute: int = 3, now: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` is for each kind. `now` returns monotonic seconds."""
        self._per_minute = per_minute
        self._now = now
        self._kinds: dict[Hashable, _Minute] = {}
        self._guard = threading.Lock()

    def admit(self, kind: Hashable) -> int | None:
        """Return how many of a kind were withheld since the last logged one. Return None if this one is withheld.

        Kinds are few and our own. Beyond a thousand kinds within a minute, new ones are withheld.
        """
        now = self._now()
        with self._guard:
            minute = self._kinds.get(kind)
            if minute is None or now - minute.began >= _MINUTE_SECONDS:
                if minute is None and not self._has_room(now):
                    return None
                withheld = minute.withheld if minute else 0
                self._kinds[kind] = _Minute(began=now, told=1)
                return withheld
            if minute.told >= self._per_minute:
                minute.withheld += 1
                return None
            minute.told += 1
            return 0

    def _has_room(self, now: float) -> bool:
        if len(self._kinds) < _KINDS:
            return True
        self._kinds = {kind: minute for kind, minute in self._kinds.items() if now - minute.began < _MINUTE_SECONDS}
        return len(self._kinds) < _KINDS
