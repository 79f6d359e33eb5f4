"""Dead executors: pending plans of ours whose heartbeat guards nobody, as the JVM that left it is proved dead."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.recovery import is_proved_dead
from lakewarden.service.store.port import Store

BEATS_AFTER = timedelta(seconds=15)
"""A JVM of ours may have beaten for so long after the last renewal of its table's claim: one interval of renewals, and
until it was killed. Nobody else's heartbeat is as early: Hudi lets no other executor begin before ours was silent for
two minutes, which is at least a minute after our JVM died."""


class DeadExecutors:
    """Finds freed instants. Only the control thread calls it.

    That our JVM is dead does not make a heartbeat its own: since then somebody else may have begun to execute the plan.
    So the last beat must not be later than our JVM was known to be alive. Both are told by the clock of the storage.
    """

    def __init__(self, *, store: Store, claims: Claims) -> None:
        self._store = store
        self._claims = claims
        self._left_by: dict[tuple[str, str], str] = {}

    def of(self, table: TableId, view: TableView, service: Service, *, ours: frozenset[str]) -> frozenset[str]:
        """Return those of our pending plans whose heartbeat was left by a JVM of ours that is proved dead."""
        identity = str(view.identity)
        freed = set()
        for plan in view.timeline.pending(service):
            if plan.last_beat is None or plan.time not in ours:
                continue
            executor = self._store.executor(identity=identity, service=service, instant=plan.time)
            if executor is not None and is_proved_dead(executor) and self._beat_by(executor, table, plan):
                self._left_by[identity, plan.time] = executor
                freed.add(plan.time)
        return frozenset(freed)

    def takes_up(self, run: Run) -> bool:
        """Whether the run is about to take up an instant that was freed: the heartbeat there is to be removed."""
        if run.instant is None or (run.identity, run.instant) not in self._left_by:
            return False
        last = self._store.executor(identity=run.identity, service=run.service, instant=run.instant)
        return self._left_by[run.identity, run.instant] == last

    def includes(self, run: Run, plan: Instant) -> bool:
        """Whether the run's instant was freed before it took it up, and nobody else has shown a sign of life since."""
        executor = self._left_by.get((run.identity, plan.time))
        return executor is not None and self._beat_by(executor, run.table, plan)

    def _beat_by(self, executor: str, table: TableId, plan: Instant) -> bool:
        alive_at: datetime | None = self._claims.alive_at(table, executor)
        return alive_at is not None and plan.last_beat is not None and plan.last_beat <= alive_at + BEATS_AFTER
