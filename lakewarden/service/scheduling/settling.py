"""The end of runs: a run that has ended is settled after its table has been read since."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import Blame, Lost, Outcome
from lakewarden.executors.points import Point
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Fate, RunId
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.ownership.recovery import Recovery
from lakewarden.service.rules.settle import (
    Consequence,
    Gone,
    Settlement,
    Shown,
    after_cancel,
    clears,
    ends_rewrite,
    settle,
)
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.state.daemon_state import DaemonState, Resources

log = structlog.get_logger(__name__)

_REST_SECONDS = 30.0
"""How long a run rests after an unforeseen failure to settle it."""

_AFTERMATHS = {
    Blame.ITS_OWN: Consequence.STRIKE,
    Blame.UNKNOWN: Consequence.SUSPECT,
    Blame.NOT_ITS: Consequence.AGAIN,
}
"""What the death of its worker means for the service of a run."""


class RunSettler:
    """Settles runs by the rules of `rules/settle.py`. Only the control thread calls it."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        recovery: Recovery,
        permit_queue: PermitQueue,
        settled: Callable[[TableId], None],
    ) -> None:
        """`settled` gets every table with a settled run."""
        self._tables = state.tables
        self._observations = state.observations
        self._active_runs = state.active_runs
        self._service_states = state.service_states
        self._rewrites = state.rewrites
        self._recovery = recovery
        self._permit_queue = permit_queue
        self._clock = resources.clock
        self._listener = resources.listener
        self._settled = settled
        self._endings: dict[RunId, Outcome | Gone] = {}
        """How those of our runs ended that are not settled."""
        self._lost: set[RunId] = set()
        """Those of them with a JVM that is gone."""
        self._settling: dict[RunId, int] = {}
        """The runs that are settled after their tables have been read since these marks."""
        self._cancelled: set[RunId] = set()
        """The active runs that an operator has stopped."""
        self._anew: set[RunId] = set()
        """The runs with an unknown ending that a new reading of the table may end."""
        self._rests: dict[RunId, float] = {}
        """When, in monotonic seconds, a run may be tried again."""

    def abandon(self) -> None:
        """Forget every run: our lease is lost."""
        self._endings.clear()
        self._lost.clear()
        self._settling.clear()
        self._cancelled.clear()
        self._anew.clear()
        self._rests.clear()

    def cancelled(self, run: Run) -> None:
        """Note that an operator has stopped an active run."""
        self._cancelled.add(run.id)

    def settle_unknown(self) -> None:
        """Try again to settle the runs with an unknown ending, our own and those that were adopted.

        A table is read again only if it has changed, or if the time that has passed since would end the run.
        """
        self._recovery.adopt()
        for run in self._active_runs.all():
            if run.state is RunState.UNKNOWN and run.table in self._tables and self._recovery.is_ours(run):
                self._settling.setdefault(run.id, self._observations.mark())
        self.settle()

    def settle(self) -> None:
        """Settle the runs that have ended, after their tables have been read since.

        Raises TemporaryError if the store cannot note it. Then it must be called again.
        """
        for run_id in list(self._settling):
            run = self._active_runs.get(run_id)
            if run is None or run.table not in self._tables:
                self._settling.pop(run_id)
                continue
            if self._is_resting(run_id):
                continue
            try:
                self._try_to_settle(run)
            except SupersededError as late:
                self._settling.pop(run_id)
                self._permit_queue.reject(run, late)

    def is_waiting(self) -> bool:
        """Whether a run waits to be settled until its table has been read."""
        return bool(self._settling)

    def lost(self, run: Run, lost: Lost, *, hung: str | None) -> None:
        """Settle one of our runs with a JVM that is gone, as soon as its executors are proved dead, too. `hung` is why
        we had asked the run to stop before, or None.
        """
        self._lost.add(run.id)
        self.ended(run, _death(lost, hung=hung))

    def ended(self, run: Run, ending: Outcome | Gone) -> None:
        """Settle one of our runs that has ended, now or after its table has been read since."""
        self._endings[run.id] = ending
        self._settling.setdefault(run.id, self._observations.mark())
        self._try_to_settle(run)

    def _is_resting(self, run: RunId) -> bool:
        return self._clock.monotonic() < self._rests.get(run, float("-inf"))

    def _try_to_settle(self, run: Run) -> None:
        try:
            self._settle(run)
        except LakewardenError:
            raise  # the store
        except Exception:  # the failure of one table must not end the daemon
            log.exception("run_not_settled", run=run.id, table=run.table, service=run.service)
            self._rests[run.id] = self._clock.monotonic() + _REST_SECONDS

    def _settle(self, run: Run) -> None:
        mark = self._settling[run.id]
        try:
            observation = self._observations.since(self._tables[run.table], mark, anew=self._must_be_read(run))
            if observation is None:
                return
            view: TableView | None = observation.view
        except LakewardenError:
            view = None  # a table that cannot be found now may be there again in a moment, so nothing is guessed
        ending = self._endings.get(run.id) or self._recovery.ending(run)
        if run.id in self._lost and isinstance(ending, Gone):
            ending = self._recovery.lost(run, ending)  # its JVM is gone, its executors elsewhere may not be
        settlement = settle(ending, self._on_timeline(run, view), run)
        if run.id in self._cancelled:
            settlement = after_cancel(settlement)
        if view is not None and settlement.state.ended and not self._observations.read_since(run.table, mark):
            self._anew.add(run.id)  # only time has changed the answer
            return
        points.reach(Point.SETTLED, run=run.id, service=run.service)
        if settlement.state is RunState.UNKNOWN:
            self._anew.discard(run.id)
            if run.state is not RunState.UNKNOWN:
                run = self._active_runs.progress(run, state=RunState.UNKNOWN)
                self._listener.ended(run)
                self._settled(run.table)
        else:
            if ends_rewrite(ending, run):
                self._rewrites.end(run.table, run.service)
            self._end(run, settlement, view, cleared=clears(ending, run))
        self._settling.pop(run.id, None)

    def _must_be_read(self, run: Run) -> bool:
        """Whether the table of a run must be read. Else its last observation counts, if its token confirms it."""
        kept = self._observations.kept(run.table)
        return run.state is not RunState.UNKNOWN or run.id in self._anew or kept is None or bool(kept.view.faults)

    def _end(self, run: Run, settlement: Settlement, view: TableView | None, *, cleared: bool) -> None:
        run = self._active_runs.end(run, settlement, at=self._clock.now())
        points.reach(Point.NOTIFIED, run=run.id, service=run.service)
        died = isinstance(self._endings.pop(run.id, None), Gone)
        self._cancelled.discard(run.id)
        self._anew.discard(run.id)
        self._rests.pop(run.id, None)
        self._lost.discard(run.id)
        self._recovery.settled(run)
        size = self._permit_queue.size(run.id)
        planned_on = self._permit_queue.ended(run)
        # Off the timeline a service counts from the state after its run, not from the state before it.
        seen = view if run.off_timeline or planned_on is None else planned_on
        # a new table with the same id is not to blame for the old one
        if view is None or str(view.identity) == run.identity:
            self._service_states.ended(run.table, run.service, settlement, seen, cleared=cleared)
            if died and settlement.consequence is Consequence.STRIKE and size is not None:
                self._service_states.too_large(run.table, run.service, run.id, size, settlement.outcome)
        self._listener.ended(run)
        self._settled(run.table)

    def _on_timeline(self, run: Run, view: TableView | None) -> Shown | None:
        """Return what the timeline shows of a run, or None if it cannot be read whole."""
        if view is None:
            return None
        if str(view.identity) != run.identity:
            # the table was dropped and created again, and our work went with the old table
            return Shown(fate=Fate.ABSENT)
        if view.faults:
            return None
        instant = view.timeline.of_run(run=run.id, instant=run.instant)
        guarded_until = None if instant is None else instant.guarded_until
        beats = guarded_until is not None and self._clock.now() < guarded_until
        return Shown(fate=view.timeline.fate(run=run.id, instant=run.instant), beats=beats)


def _death(lost: Lost, *, hung: str | None) -> Gone:
    """Return how a run ended after its worker died. `hung` is why we had asked the run to stop before, or None.

    The settler proves the death of its executors.
    """
    if hung is not None:  # killed because of this run, whatever runs were beside it
        return Gone(reason=f"{hung}: {lost.reason}", proved=False)
    return Gone(reason=lost.reason, proved=False, consequence=_AFTERMATHS[lost.blame])
