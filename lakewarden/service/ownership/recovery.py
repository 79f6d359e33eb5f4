"""Recovery: it takes over the runs of a dead owner, and knows when no executor can work on them any more.

There is one way for a daemon that starts, one that takes over the tables of a dead replica, and one that lost its lease
and goes on as another replica. A run that was begun is adopted under a new epoch, so results of its old owner are
rejected. It is settled when the timeline, or the proof that its executor is gone, allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.events import Listener
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.rules.settle import Consequence, Gone, Settlement
from lakewarden.service.state.active_runs import ActiveRuns

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

DYING = timedelta(seconds=5)
"""How long after the moment at which its worker had to kill it a JVM is gone."""

RECENT_RUNS = 200
"""Runs that died in the same JVM are searched among this many of the newest runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inherited:
    """An adopted run: the moment at which the workers of its owner must be gone, and what its death means."""

    gone_at: float
    consequence: Consequence


class Recovery:
    """Takes runs over. Only the control thread calls it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        store: Store,
        active_runs: ActiveRuns,
        clock: Clock,
        listener: Listener,
        owner: Callable[[], ReplicaId],
        orphans_live: timedelta,
        deaths: ExecutorDeaths,
    ) -> None:
        """`owner` returns the current replica. Workers of a dead owner live at most `orphans_live` after we
        know of it.
        """
        self._tables = tables
        self._store = store
        self._active_runs = active_runs
        self._clock = clock
        self._listener = listener
        self._owner = owner
        self._orphans_live = orphans_live
        self._deaths = deaths
        self._inherited: dict[RunId, _Inherited] = {}
        self._evicted: set[RunId] = set()
        self._lost: dict[RunId, float] = {}
        """When the JVMs of our runs were gone that are not settled yet."""

    def take_over(self, locations: Collection[str] | None = None) -> None:
        """Take in every run that has not ended on tables at these locations (None: on all), and adopt those that were
        begun.

        It may be called again, on the same tables or on others: no run is taken in twice. Raises TemporaryError if the
        store does not answer. Then it must be called again.
        """
        for run in self._store.active():
            if not self._concerns(run, locations):
                continue
            if run.state is RunState.QUEUED and not self._is_wanted(run):
                self._write_off(run)
            else:
                self._active_runs.take_in(run)
        self.adopt()

    def adopt(self) -> None:
        """Adopt every known run that was begun by an owner who is dead. Raises TemporaryError."""
        lost = [
            run
            for run in self._active_runs.all()
            if run.state is RunState.UNKNOWN and run.table in self._tables and not self.is_ours(run)
        ]
        if not lost:
            return
        rows = {run.id: run for run in (*self._store.runs(limit=RECENT_RUNS), *self._store.active())}
        for run in lost:
            adopted = self._adopted(run)
            if adopted is not None:
                evicted = run.id in self._evicted
                self._inherit(run, Consequence.AGAIN if evicted else _consequence(run, [*rows.values()]))
                self._listener.adopted(adopted)

    def is_ours(self, run: Run) -> bool:
        """Whether we have the lease of the run."""
        return run.owner == self._owner()

    def ending(self, run: Run) -> Gone:
        """Return how an adopted run ended, as far as that is known now."""
        # If a run of ours is with no worker, the answer to the call that claimed it was lost. No worker knows of it.
        left = self._inherited.get(run.id) or self._inherit(run, Consequence.AGAIN)
        reason = "its worker or the daemon was stopped while it was under way"
        return self._judged(run, Gone(reason=reason, proved=False, consequence=left.consequence), left.gone_at)

    def lost(self, run: Run, ending: Gone) -> Gone:
        """Return how one of our runs ended that has lost its JVM, with each of its processes. It may be asked again:
        executors on other machines may go on for a while.
        """
        left = self._lost.setdefault(run.id, self._clock.monotonic())
        return self._judged(run, ending, left)

    def _judged(self, run: Run, ending: Gone, gone_at: float) -> Gone:
        proof = self._deaths.proof(run.executors, gone_since=gone_at)
        reason = ending.reason if run.application is None else f"{ending.reason}; {proof.reason}"
        return replace(ending, proved=proof.proved, reason=reason)

    def settled(self, run: Run) -> None:
        """Forget a run that was settled."""
        self._inherited.pop(run.id, None)
        self._lost.pop(run.id, None)
        self._evicted.discard(run.id)

    def abandon(self) -> None:
        """Forget all runs: the lease is lost, and our workers with it. No run is to blame for that."""
        self._evicted.update(run.id for run in self._active_runs.abandon())
        self._inherited.clear()
        self._lost.clear()

    def _concerns(self, run: Run, locations: Collection[str] | None) -> bool:
        if locations is None:
            return True
        table = self._tables.get(run.table)
        return table is not None and table.location in locations

    def _is_wanted(self, run: Run) -> bool:
        """Whether the configuration, which may have changed since, still lets the service of the run act."""
        table = self._tables.get(run.table)
        return table is not None and table.mode is Mode.ACT and run.service in table.policies

    def _write_off(self, run: Run) -> None:
        reason = "the configuration no longer lets this service run on the table"
        try:
            self._active_runs.end(run, Settlement(state=RunState.CANCELLED, outcome=reason), at=self._clock.now())
        except SupersededError:
            log.info("run_is_anothers", run=run.id)

    def _adopted(self, run: Run) -> Run | None:
        """Adopt a run, or return None if its owner lives or the run has ended.

        A living owner holds its table back, and the adoption is tried again.
        """
        try:
            return self._active_runs.adopt(run, owner=self._owner())
        except SupersededError as refused:
            log.debug("run_is_anothers", run=run.id, reason=str(refused))
        row = self._store.run(run.id)
        if row is not None and not row.state.ended and not self.is_ours(row):
            return None
        self._active_runs.let_go(run)
        if row is None or row.state.ended:
            return None
        self._active_runs.take_in(row)  # it was adopted by a call that got no answer
        return row

    def _inherit(self, run: Run, consequence: Consequence) -> _Inherited:
        gone_at = self._clock.monotonic() + self._orphans_live.total_seconds()
        self._inherited[run.id] = left = _Inherited(gone_at=gone_at, consequence=consequence)
        return left


def _consequence(run: Run, rows: Sequence[Run]) -> Consequence:
    """Return what the death of its JVM means for a run, as far as the rows show the other runs in that JVM.

    The others are the runs of the same executor, or of the same owner if no executor is known. They have not ended
    either, or another replica has settled them since.
    """
    beside = [
        other
        for other in rows
        if (other.executor == run.executor if run.executor is not None else other.owner == run.owner)
        and other.id != run.id
        and other.step is not None
        and (not other.state.ended or other.owner != run.owner)
    ]
    return Consequence.SUSPECT if beside else Consequence.STRIKE
