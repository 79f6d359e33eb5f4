"""The active runs: the rows of the runs that have not ended, in memory as they are in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Settlement
from lakewarden.service.store.port import Store

UNDER_WAY = frozenset({RunState.RUNNING, RunState.COMMITTING})
"""A worker is carrying the run out."""


class ActiveRuns:
    """Every change is in the store before it is in the book. Only the control thread writes; anybody may read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[RunId, Run] = {}

    def get(self, run: RunId) -> Run | None:
        """Return a run that has not ended."""
        return self._rows.get(run)

    def of(self, table: TableId) -> Mapping[Service, Run]:
        """Return the table's runs that have not ended."""
        return {run.service: run for run in list(self._rows.values()) if run.table == table}

    def all(self) -> list[Run]:
        """Return every run that has not ended, the oldest first."""
        return list(self._rows.values())

    def under_way(self) -> list[Run]:
        """Return the runs that a worker is carrying out."""
        return [run for run in list(self._rows.values()) if run.state in UNDER_WAY]

    def neighbours(self, run: Run) -> list[Run]:
        """Return the other runs that a worker is carrying out on the same table, whatever it is called there."""
        return [other for other in self.under_way() if other.identity == run.identity and other.id != run.id]

    def busy(self) -> set[TableId]:
        """Return the tables with a run that was begun and has not ended."""
        return {run.table for run in list(self._rows.values()) if run.state is not RunState.QUEUED}

    def take_in(self, run: Run) -> None:
        """Take in a row of the store; one that is known already stays as it is.

        A run that was begun by somebody else is UNKNOWN to us: whatever its row says, no worker of ours is at it.
        """
        self._rows.setdefault(run.id, replace(run, state=RunState.UNKNOWN) if run.state in UNDER_WAY else run)

    def claim(self, run: Run, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the run's lease. Raises SupersededError if it is no longer QUEUED."""
        return self._keep(self._store.claim(run.id, owner=owner, at=at))

    def adopt(self, run: Run, *, owner: ReplicaId) -> Run:
        """Take over the run of a dead owner. Raises SupersededError while it is, or has become, somebody else's."""
        return self._keep(self._store.adopt(run.id, owner=owner))

    def progress(
        self,
        run: Run,
        *,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
        executor: str | None = None,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """Note how far a run has come. Raises SupersededError if somebody else has its lease."""
        return self._keep(
            self._store.progress(
                run.id, epoch=run.epoch, state=state, step=step, instant=instant, executor=executor, figures=figures
            )
        )

    def end(self, run: Run, settlement: Settlement, *, at: datetime) -> Run:
        """End a run as it was settled, and let it go. What was noted of it before stays among its figures: a deletion
        that was begun is told whatever became of it. Raises SupersededError as `progress` does.
        """
        ended = self._store.end(
            run.id,
            epoch=run.epoch,
            state=settlement.state,
            outcome=settlement.outcome,
            figures={**run.figures, **settlement.figures},
            at=at,
        )
        self.let_go(run)
        return ended

    def let_go(self, run: Run) -> None:
        """Forget a run: it has ended, or it is somebody else's."""
        self._rows.pop(run.id, None)

    def forsake(self) -> list[Run]:
        """Forget every run, and return those that were begun: they are to be taken over as if they were another's."""
        begun = [run for run in self._rows.values() if run.state is not RunState.QUEUED]
        self._rows.clear()
        return begun

    def _keep(self, run: Run) -> Run:
        self._rows[run.id] = run
        return run
