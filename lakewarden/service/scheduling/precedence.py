"""Precedence: how far in front a run stands, and to which queued one it gives way. Only the control thread asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.executors.contract import Pool, Room
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.dispatch import goes_first, rank_of
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.backoff import Backoffs


class Precedence:
    """Knows the priorities of tables and services, what failed of late, and the room in the pools."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        pools: Mapping[str, Pool],
        standings: Backoffs,
        book: ActiveRuns,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._pools = pools
        self._standings = standings
        self._book = book
        self._clock = clock

    def rank(self, run: Run) -> int:
        """Return how far in front a run stands."""
        policy = self._tables[run.table].policies.get(run.service)
        return rank_of(
            run,
            priority=0 if policy is None else policy.priority,
            troubled=self._standings.is_troubled(run.table, run.service),
            now=self._clock.now(),
        )

    def profiles(self, runs: Iterable[Run]) -> Mapping[RunId, str]:
        """Return the `spark` profile of each run whose table is registered."""
        return {run.id: self._tables[run.table].profile_of(run.service) for run in runs if run.table in self._tables}

    def rooms(self) -> Mapping[str, Room]:
        """Return the room in each pool, by its profile."""
        return {name: pool.room() for name, pool in self._pools.items()}

    def goes_first(self, run: Run) -> Run | None:
        """Return the queued run on the same table that is to go before a run that is under way."""
        rows = [row for row in self._book.all() if row.identity == run.identity and row.table in self._tables]
        queued = [row for row in rows if row.state is RunState.QUEUED]
        if not queued:
            return None
        return goes_first(run, queued, pools=self.profiles([run, *queued]), rooms=self.rooms(), rank=self.rank)
