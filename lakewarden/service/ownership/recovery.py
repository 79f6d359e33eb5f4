"""Recovery: taking over the runs that a dead owner left, and knowing when nobody can be at them any more.

One road for a daemon that starts, one that takes a dead replica's tables over, and one that lost its lease and goes on
as another replica: what was begun is adopted under a new epoch, so that its old owner is not heard any more, and it is
settled as soon as the timeline, or the proof that its executor is gone, allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Aftermath, Gone, Settlement
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.store.port import Store, SupersededError

log = structlog.get_logger(__name__)

DYING = timedelta(seconds=5)
"""A JVM is gone so long after the moment at which its worker had to kill it."""

RECENT_RUNS = 200
"""Among so many of the newest runs those are looked for that died in the same JVM."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inherited:
    """A run that was adopted: from when on its owner's workers must be gone, and what its death means."""

    gone_at: float
    aftermath: Aftermath


class Recovery:
    """Takes runs over. Only the control thread calls it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        store: Store,
        book: ActiveRuns,
        clock: Clock,
        listener: Listener,
        owner: Callable[[], ReplicaId],
        orphans_live: timedelta,
    ) -> None:
        """`owner` returns who we are now; workers of a dead owner live no longer than `orphans_live` after we know."""
        self._tables = tables
        self._store = store
        self._book = book
        self._clock = clock
        self._listener = listener
        self._owner = owner
        self._orphans_live = orphans_live
        self._inherited: dict[RunId, _Inherited] = {}
        self._evicted: set[RunId] = set()

    def take_over(self, locations: Collection[str] | None = None) -> None:
        """Take in every run that has not ended on tables at these locations (None: on all), and adopt what was begun.

        It may be called again, on the same tables or others: nothing is taken in twice. Raises TemporaryError if the
        store does not answer, and is then to be called again.
        """
        for run in self._store.active():
            if not self._concerns(run, locations):
                continue
            if run.state is RunState.QUEUED and not self._is_wanted(run):
                self._write_off(run)
            else:
                self._book.take_in(run)
        self.adopt()

    def adopt(self) -> None:
        """Adopt every run in the book that was begun by an owner who is dead. Raises TemporaryError."""
        lost = [
            run
            for run in self._book.all()
            if run.state is RunState.UNKNOWN and run.table in self._tables and not self.is_ours(run)
        ]
        if not lost:
            return
        rows = {run.id: run for run in (*self._store.runs(limit=RECENT_RUNS), *self._store.active())}
        for run in lost:
            adopted = self._adopted(run)
            if adopted is not None:
                evicted = run.id in self._evicted
                self._inherit(run, Aftermath.AGAIN if evicted else _aftermath(run, [*rows.values()]))
                self._listener.adopted(adopted)

    def is_ours(self, run: Run) -> bool:
        """Whether we have the run's lease."""
        return run.owner == self._owner()

    def ending(self, run: Run) -> Gone:
        """Return how an adopted run ended, as far as that is known now."""
        # A run of ours in nobody's hands was claimed by a call whose answer was lost: no worker has heard of it.
        left = self._inherited.get(run.id) or self._inherit(run, Aftermath.AGAIN)
        return Gone(
            reason="its worker or the daemon was stopped while it was under way",
            proved=is_proved_dead(run.executor) or self._clock.monotonic() >= left.gone_at,
            aftermath=left.aftermath,
        )

    def settled(self, run: Run) -> None:
        """Forget a run that was settled."""
        self._inherited.pop(run.id, None)
        self._evicted.discard(run.id)

    def forsake(self) -> None:
        """Let go of everything: the lease is lost, and with it our workers, which is nobody's fault."""
        self._evicted.update(run.id for run in self._book.forsake())
        self._inherited.clear()

    def _concerns(self, run: Run, locations: Collection[str] | None) -> bool:
        if locations is None:
            return True
        table = self._tables.get(run.table)
        return table is not None and table.location in locations

    def _is_wanted(self, run: Run) -> bool:
        """Whether the configuration, which may be another one since, still lets the run's service act."""
        table = self._tables.get(run.table)
        return table is not None and table.mode is Mode.ACT and run.service in table.policies

    def _write_off(self, run: Run) -> None:
        reason = "the configuration no longer lets this service run on the table"
        try:
            self._book.end(run, Settlement(state=RunState.CANCELLED, outcome=reason), at=self._clock.now())
        except SupersededError:
            log.info("run_is_anothers", run=run.id)

    def _adopted(self, run: Run) -> Run | None:
        """Adopt a run. None while its owner lives (it holds its table back, and is tried again), or if it has ended."""
        try:
            return self._book.adopt(run, owner=self._owner())
        except SupersededError as refused:
            log.debug("run_is_anothers", run=run.id, reason=str(refused))
        row = self._store.run(run.id)
        if row is not None and not row.state.ended and not self.is_ours(row):
            return None
        self._book.let_go(run)
        if row is None or row.state.ended:
            return None
        self._book.take_in(row)  # it was adopted by a call whose answer was lost
        return row

    def _inherit(self, run: Run, aftermath: Aftermath) -> _Inherited:
        gone_at = self._clock.monotonic() + self._orphans_live.total_seconds()
        self._inherited[run.id] = left = _Inherited(gone_at=gone_at, aftermath=aftermath)
        return left


def is_proved_dead(executor: str | None) -> bool:
    """Whether the JVM of this name (`ProcessIdentity.to_text`) certainly runs no more. One without a name may."""
    if executor is None:
        return False
    try:
        return ProcessIdentity.from_text(executor).is_proved_dead()
    except ValueError:
        return False


def _aftermath(run: Run, rows: Sequence[Run]) -> Aftermath:
    """Return what it means for a run that its JVM died, as far as the rows tell who else was in it.

    Those are the runs of the same executor (or of the same owner, where no executor is known) that have not ended
    either, or that somebody else has settled since.
    """
    beside = [
        other
        for other in rows
        if (other.executor == run.executor if run.executor is not None else other.owner == run.owner)
        and other.id != run.id
        and other.step is not None
        and (not other.state.ended or other.owner != run.owner)
    ]
    return Aftermath.SUSPECT if beside else Aftermath.STRIKE
