"""Precedence: the rank of a run, and the queued run that goes before it. Only the control thread asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.executors.contract import Capacity, Pool
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.services import plan_bytes
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.dispatch import PoolFacts, goes_first, rank_of
from lakewarden.service.state.daemon_state import DaemonState


class Precedence:
    """Knows the priorities of tables and services, which services failed recently, for which of them readers wait, and
    the free slots of the pools.
    """

    def __init__(self, *, state: DaemonState, pools: Mapping[str, Pool], clock: Clock) -> None:
        self._tables = state.tables
        self._pools = pools
        self._service_states = state.service_states
        self._active_runs = state.active_runs
        self._observations = state.observations
        self._clock = clock

    def rank(self, run: Run) -> int:
        """Return the rank of a queued run."""
        policy = self._tables[run.table].policies.get(run.service)
        return rank_of(
            run,
            priority=0 if policy is None else policy.priority,
            failing=self._service_states.has_failed(run.table, run.service),
            now=self._clock.now(),
            shows_rows=self._shows_rows(run),
        )

    def _shows_rows(self, run: Run) -> bool:
        observation = self._observations.kept(run.table)
        return observation is not None and run.service in observation.view.unseen_since

    def profiles(self, runs: Iterable[Run]) -> Mapping[RunId, str]:
        """Return the `spark` profile of each run on a registered table: that of the workers that have it, or the one
        to which its table leads it now.
        """
        return {run.id: self.profile(run) for run in runs if run.table in self._tables}

    def profile(self, run: Run) -> str:
        """Return the `spark` profile of a run on a registered table."""
        placed = self._active_runs.profile_of(run)
        if placed is not None:
            return placed
        table = self._tables[run.table]
        return table.profile_of(run.service, self._size(run) if table.routes else None)

    def pool_facts(self, runs: Iterable[Run]) -> PoolFacts:
        """Return where runs go."""
        return PoolFacts(pools=self.profiles(runs), capacities=self.capacities())

    def _size(self, run: Run) -> int | None:
        seen = self._observations.kept(run.table)
        return None if seen is None else plan_bytes(seen.view, run.service, run.instant)

    def is_led(self, run: Run) -> bool:
        """Whether it is known where a run in the queue goes. If the size of its plan decides, its table must have been
        observed.
        """
        table = self._tables.get(run.table)
        asks = table is not None and len(table.profiles_of(run.service)) > 1
        return not asks or self._observations.kept(run.table) is not None

    def capacities(self) -> Mapping[str, Capacity]:
        """Return the slots of each pool, by its profile."""
        return {name: pool.capacity() for name, pool in self._pools.items()}

    def goes_first(self, run: Run) -> Run | None:
        """Return the queued run on the same table that must go before a run that is under way, or None."""
        rows = [row for row in self._active_runs.all() if row.identity == run.identity and row.table in self._tables]
        queued = [row for row in rows if row.state is RunState.QUEUED]
        if not queued:
            return None
        return goes_first(
            run,
            queued,
            pools=self.profiles([run, *queued]),
            capacities=self.capacities(),
            rank=self.rank,
            last=self._service_states.last_runs(),
        )
