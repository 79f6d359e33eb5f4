"""Dead executors: pending plans of ours with a heartbeat that guards no executor, because they are proved dead."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.store.port import Store

BEATS_AFTER = timedelta(seconds=15)
"""How long after the last renewal of the claim of its table a JVM of ours may still have beaten. That is one interval
of renewals, and the time until the JVM was killed. No other executor beats as early: Hudi lets another executor begin
only after our heartbeat has been silent for two minutes. That is at least a minute after our JVM died.
"""


class DeadExecutors:
    """Finds pending instants that a dead executor left. Only the control thread calls it.

    If our JVM is dead, the heartbeat may still belong to another executor that has begun the plan since. So the last
    beat must not be later than the last sign of our JVM. Both are on the clock of the storage.
    """

    def __init__(self, *, store: Store, claims: Claims, deaths: ExecutorDeaths) -> None:
        self._store = store
        self._claims = claims
        self._deaths = deaths
        self._left_by: dict[tuple[str, str], str] = {}

    def of(self, table: TableId, view: TableView, service: Service, *, ours: frozenset[str]) -> frozenset[str]:
        """Return those of our pending plans with a heartbeat that a JVM of ours left, if that JVM is proved dead."""
        identity = str(view.identity)
        unguarded = set()
        for plan in view.timeline.pending(service):
            if plan.last_beat is None or plan.time not in ours:
                continue
            names = self._store.executors(identity=identity, service=service, instant=plan.time)
            executor = names.executor
            if executor is not None and self._deaths.proof(names).proved and self._beat_by(executor, table, plan):
                self._left_by[identity, plan.time] = executor
                unguarded.add(plan.time)
        return frozenset(unguarded)

    def takes_up(self, run: Run) -> bool:
        """Whether the run is about to take up such an instant. Then the old heartbeat must be removed."""
        if run.instant is None or (run.identity, run.instant) not in self._left_by:
            return False
        last = self._store.executors(identity=run.identity, service=run.service, instant=run.instant)
        return self._left_by[run.identity, run.instant] == last.executor

    def includes(self, run: Run, plan: Instant) -> bool:
        """Whether the instant of the run was such an instant before the run took it up, and no other executor has
        beaten since.
        """
        executor = self._left_by.get((run.identity, plan.time))
        return executor is not None and self._beat_by(executor, run.table, plan)

    def _beat_by(self, executor: str, table: TableId, plan: Instant) -> bool:
        alive_at: datetime | None = self._claims.alive_at(table, executor)
        return alive_at is not None and plan.last_beat is not None and plan.last_beat <= alive_at + BEATS_AFTER
