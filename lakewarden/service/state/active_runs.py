"""The active runs: the rows of the runs that have not ended, in memory as they are in the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Settlement

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

UNDER_WAY = frozenset({RunState.RUNNING, RunState.COMMITTING})
"""A worker is carrying the run out."""


class ActiveRuns:
    """Every change is in the store before it is in memory. Only the control thread writes, and any thread may read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[RunId, Run] = {}
        self._by_table: dict[TableId, dict[RunId, Run]] = {}
        self._profiles: dict[RunId, str] = {}
        self._unanswered: set[TableId] = set()
        """The tables with a request to which the store gave no answer. It may have stored the run."""

    def get(self, run: RunId) -> Run | None:
        """Return a run that has not ended."""
        return self._rows.get(run)

    def of(self, table: TableId) -> Mapping[Service, Run]:
        """Return the runs of the table that have not ended."""
        runs = self._by_table.get(table)
        return {run.service: run for run in list(runs.values())} if runs else {}

    def tables(self) -> Collection[TableId]:
        """Return the tables with a run that has not ended."""
        return list(self._by_table)

    def all(self) -> list[Run]:
        """Return every run that has not ended, the oldest first."""
        return list(self._rows.values())

    def under_way(self) -> list[Run]:
        """Return the runs that a worker is carrying out."""
        return [run for run in list(self._rows.values()) if run.state in UNDER_WAY]

    def neighbours(self, run: Run) -> list[Run]:
        """Return the other runs that a worker is carrying out on the same table, also under another id of the table."""
        return [other for other in self.under_way() if other.identity == run.identity and other.id != run.id]

    def busy(self) -> set[TableId]:
        """Return the tables with a run that was begun and has not ended."""
        return {run.table for run in list(self._rows.values()) if run.state is not RunState.QUEUED}

    def placed(self, run: Run, profile: str) -> None:
        """Note that the workers of a profile get the run. They have it until it has ended, whatever the table shows."""
        self._profiles[run.id] = profile

    def profile_of(self, run: Run) -> str | None:
        """Return the profile of the workers that have got the run from this daemon. None if none has."""
        return self._profiles.get(run.id)

    def request(self, run: Run) -> Run:
        """Store a QUEUED run, or return the one of its table and service that has not ended. Raises TemporaryError."""
        self._unanswered.add(run.table)
        stored = self._store.request(run)
        self._unanswered.discard(run.table)
        self.take_in(stored)
        return stored

    def take_in_what_was_stored(self, table: TableId) -> None:
        """Take in the run of a request to which the store gave no answer, if it has stored the run. Raises
        TemporaryError.
        """
        if table in self._unanswered:
            for run in self._store.runs(table=table, states=[RunState.QUEUED]):
                self.take_in(run)
            self._unanswered.discard(table)

    def take_in(self, run: Run) -> None:
        """Take in a row of the store. A row that is known already stays as it is.

        A run that was begun under another owner is UNKNOWN here. No worker of this daemon carries it out.
        """
        if run.id not in self._rows:
            self._keep(replace(run, state=RunState.UNKNOWN) if run.state in UNDER_WAY else run)

    def take_lease(self, run: Run, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the lease of the run. Raises SupersededError if it is no longer QUEUED."""
        return self._keep(self._store.take_lease(run.id, owner=owner, at=at))

    def adopt(self, run: Run, *, owner: ReplicaId) -> Run:
        """Take over the run of a dead owner. Raises SupersededError while its owner lives, or if another replica has
        it.
        """
        return self._keep(self._store.adopt(run.id, owner=owner))

    def progress(
        self,
        run: Run,
        *,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
        executor: str | None = None,
        application: str | None = None,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """Store the progress of a run. Raises SupersededError if another replica has its lease."""
        return self._keep(
            self._store.progress(
                run.id,
                epoch=run.epoch,
                state=state,
                step=step,
                instant=instant,
                executor=executor,
                application=application,
                figures=figures,
            )
        )

    def end(self, run: Run, settlement: Settlement, *, at: datetime) -> Run:
        """End a run as it was settled, and forget it.

        The figures that were stored before stay, so a deletion that was begun is shown in any case. Raises
        SupersededError as `progress` does.
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
        """Forget a run: it has ended, or it belongs to another replica."""
        self._rows.pop(run.id, None)
        self._profiles.pop(run.id, None)
        of_table = self._by_table.get(run.table, {})
        of_table.pop(run.id, None)
        if not of_table:
            self._by_table.pop(run.table, None)

    def abandon(self) -> list[Run]:
        """Forget every run, and return those that were begun. They are taken over as if they belonged to another
        replica.
        """
        begun = [run for run in self._rows.values() if run.state is not RunState.QUEUED]
        self._rows.clear()
        self._profiles.clear()
        self._by_table.clear()
        return begun

    def _keep(self, run: Run) -> Run:
        self._rows[run.id] = run
        self._by_table.setdefault(run.table, {})[run.id] = run
        return run
