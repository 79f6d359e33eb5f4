"""Runs under way: from the queue to a slot, and from the ending to the settled row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Blame,
    Ended,
    Lost,
    Outcome,
    Pool,
    PoolEvent,
    RoomChanged,
    Started,
    Step,
    Yielded,
)
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.timeline import Fate
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.ownership.recovery import Recovery
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.rules.dispatch import startable
from lakewarden.service.rules.settle import Aftermath, Gone, Settlement, Shown, clears, settle
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.observations import Observations
from lakewarden.service.store.port import Store, SupersededError

log = structlog.get_logger(__name__)

_AFTERMATHS = {
    Blame.ITS_OWN: Aftermath.STRIKE,
    Blame.ANYBODYS: Aftermath.SUSPECT,
    Blame.NOT_ITS: Aftermath.AGAIN,
}
"""What the death of its worker means for a run's service."""


class RunManager:
    """Carries runs out. Only the control thread calls it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        pools: Mapping[str, Pool],
        watch: Observations,
        store: Store,
        book: ActiveRuns,
        questions: PermitQueue,
        barriers: Barriers,
        standings: Backoffs,
        precedence: Precedence,
        freed: DeadExecutors,
        clock: Clock,
        listener: Listener,
        tenure: ReplicaLease,
        settled: Callable[[TableId], None],
        tell: Callable[[PoolEvent], None],
        orphans_live: timedelta,
    ) -> None:
        """`settled` is told of every table with a settled run; `tell` leaves a letter for the next turn.

        `orphans_live` is how long a dead owner's workers may live once its runs can be adopted: not at all where that
        takes the end of a timed lease.
        """
        self._tables = tables
        self._pools = pools
        self._watch = watch
        self._book = book
        self._questions = questions
        self._barriers = barriers
        self._standings = standings
        self._precedence = precedence
        self._freed = freed
        self._clock = clock
        self._listener = listener
        self._tenure = tenure
        self._settled = settled
        self._tell = tell
        self._alone = {
            (table.id, service)
            for table in tables.values()
            for service, policy in table.policies.items()
            if not policy.beside
        }
        self._recovery = Recovery(
            tables=tables,
            store=store,
            book=book,
            clock=clock,
            listener=listener,
            owner=lambda: tenure.replica,
            orphans_live=orphans_live,
        )
        self._endings: dict[RunId, Outcome | Gone] = {}
        """How the runs of ours ended that are not settled."""
        self._settling: dict[RunId, int] = {}
        """The runs that are settled once their tables have been read since these marks."""
        self._draining = False

    # -- the queue

    def recover(self, locations: Collection[str] | None = None) -> None:
        """Take over what a dead owner left on tables at these locations (None: on all): queued runs go on, the others
        are settled. Idempotent. Raises TemporaryError if the store does not answer: call it again.
        """
        self._recovery.take_over(locations)
        self.settle_unknown()

    def forsake(self) -> None:
        """Let go of every run: our lease is lost, and our workers are gone. What we left is recovered as another's."""
        self._recovery.forsake()
        self._questions.forsake()
        self._endings.clear()
        self._settling.clear()

    def dispatch(self) -> None:
        """Start every queued run that may start now."""
        while not self._draining and self._tenure.holds():
            rows = self._book.all()
            # Where an ending is not known, an earlier daemon's worker may still be at the table.
            unsettled = {r.identity for r in rows if r.state is RunState.UNKNOWN}
            queued = [r for r in rows if r.state is RunState.QUEUED and r.identity not in unsettled]
            if not queued:
                return
            run = startable(
                queued=queued,
                running=self._book.under_way(),
                gates=self._gates(),
                barred={r.table for r in queued if self._barriers.closed(r.table)},
                alone=self._alone,
                suspects=self._standings.suspects(),
                troubled=self._standings.troubled(),
                rank=self._precedence.rank,
                pools=self._precedence.profiles(rows),
                rooms=self._precedence.rooms(),
            )
            if run is None or not self._start(run):
                return

    def _start(self, run: Run) -> bool:
        try:
            claimed = self._book.claim(run, owner=self._tenure.replica, at=self._clock.now())
        except SupersededError:
            self._book.let_go(run)  # another replica was faster
            return True
        table = self._tables[run.table]
        try:
            FAULTS.reach(Point.CLAIMED, run=run.id, service=run.service)
            seen = self._watch.kept(table.id)
            assignment = _assignment(
                table,
                claimed,
                predecessor_dead=self._freed.takes_up(claimed),
                seen=None if seen is None else seen.view,
                largest_plan=self._standings.largest_plan(run.table, run.service),
                stepped_back=self._standings.tries(run.table, run.service),
            )
            with self._tenure.held():
                self._pools[table.profile_of(run.service)].submit(assignment)
        except TemporaryError as no_slot:
            # It never began, and nobody is to blame. As a letter it survives a store that cannot note it now.
            self._tell(Ended(run=run.id, outcome=Yielded(reason=str(no_slot))))
            return False
        return True

    def _gates(self) -> set[TableId]:
        """Return the tables where a commit of ours waits or is under way: no new clean starts there."""
        waiting = self._questions.at(Step.COMMIT)
        return {
            run.table
            for run in self._book.under_way()
            if not SERVICES[run.service].barrier and (run.state is RunState.COMMITTING or run.id in waiting)
        }

    def drain(self) -> None:
        """Start nothing any more."""
        self._draining = True

    # -- what the pool tells

    def heard(self, event: PoolEvent) -> None:
        """Act on what a pool tells. Raises TemporaryError if the store cannot note it: tell it again."""
        match event:
            case RoomChanged():
                return
            case Started() | Asked() | Ended() | Lost():
                run = self._book.get(event.run)
            case _:
                assert_never(event)
        if run is None:
            return
        try:
            self._note(run, event)
        except SupersededError as late:
            self._questions.disown(run, late, asked=event.step if isinstance(event, Asked) else None)

    def _note(self, run: Run, event: Started | Asked | Ended | Lost) -> None:
        match event:
            case Started():
                if event.executor is not None:
                    # Before it may plan: whoever comes after us can prove this JVM dead, and knows who was in it.
                    run = self._book.progress(run, executor=event.executor)
                self._listener.started(run)
            case Asked():
                self._questions.asked(run, event)
            case Ended():
                hung = self._questions.left(run)
                stepped_back = isinstance(event.outcome, Yielded)
                self._ended(run, Gone(reason=hung, proved=True) if stepped_back and hung else event.outcome)
            case Lost():
                self._ended(run, _death(event, hung=self._questions.left(run)))
            case _:
                assert_never(event)

    # -- settling

    def settle_unknown(self) -> None:
        """Try again to settle the runs whose ending only the timeline knows, our own and those we took over."""
        self._recovery.adopt()
        for run in self._book.all():
            if run.state is RunState.UNKNOWN and run.table in self._tables and self._recovery.is_ours(run):
                self._settling.setdefault(run.id, self._watch.mark())
        self.settle()

    def settle(self) -> None:
        """Settle the runs that have ended and whose tables have been read since. Raises TemporaryError if the store
        cannot note it: call it again.
        """
        for run_id in list(self._settling):
            run = self._book.get(run_id)
            if run is None or run.table not in self._tables:
                self._settling.pop(run_id)
                continue
            try:
                self._settle(run)
            except SupersededError as late:
                self._settling.pop(run_id)
                self._questions.disown(run, late)

    def settling(self) -> bool:
        """Whether a run waits to be settled until its table has been read."""
        return bool(self._settling)

    def _ended(self, run: Run, ending: Outcome | Gone) -> None:
        self._endings[run.id] = ending
        self._settling.setdefault(run.id, self._watch.mark())
        self._settle(run)

    def _settle(self, run: Run) -> None:
        try:
            observation = self._watch.since(self._tables[run.table], self._settling[run.id])
            if observation is None:
                return
            view: TableView | None = observation.view
        except LakewardenError:
            view = None  # a table that cannot be found now may be back in a moment: nothing is guessed
        ending = self._endings.get(run.id) or self._recovery.ending(run)
        settlement = settle(ending, self._shown(run, view), run)
        FAULTS.reach(Point.SETTLED, run=run.id, service=run.service)
        if settlement.state is RunState.UNKNOWN:
            if run.state is not RunState.UNKNOWN:
                run = self._book.progress(run, state=RunState.UNKNOWN)
                self._listener.ended(run)
                self._settled(run.table)
        else:
            self._end(run, settlement, view, cleared=clears(ending, run))
        self._settling.pop(run.id, None)

    def _end(self, run: Run, settlement: Settlement, view: TableView | None, *, cleared: bool) -> None:
        run = self._book.end(run, settlement, at=self._clock.now())
        FAULTS.reach(Point.NOTIFIED, run=run.id, service=run.service)
        died = isinstance(self._endings.pop(run.id, None), Gone)
        self._recovery.settled(run)
        size = self._questions.size(run.id)
        planned_on = self._questions.ended(run)
        # Off the timeline a service counts from what it left, not from what it found.
        seen = view if run.off_timeline or planned_on is None else planned_on
        if view is None or str(view.identity) == run.identity:  # a table made anew is not to blame for the old one
            self._standings.ended(run.table, run.service, settlement, seen, cleared=cleared)
            if died and settlement.aftermath is Aftermath.STRIKE and size is not None:
                self._standings.too_large(run.table, run.service, run.id, size, settlement.outcome)
        self._listener.ended(run)
        self._settled(run.table)

    def _shown(self, run: Run, view: TableView | None) -> Shown | None:
        """Return what the timeline shows of a run; None where it cannot be read whole."""
        if view is None:
            return None
        if str(view.identity) != run.identity:
            return Shown(fate=Fate.ABSENT)  # dropped and made again: what we did went with the old table
        if view.faults:
            return None
        instant = view.timeline.of_run(run=run.id, instant=run.instant)
        guarded_until = None if instant is None else instant.guarded_until
        beats = guarded_until is not None and self._clock.now() < guarded_until
        return Shown(fate=view.timeline.fate(run=run.id, instant=run.instant), beats=beats)


def _death(lost: Lost, *, hung: str | None) -> Gone:
    """Return how a run ended whose worker died. `hung` is why we had asked it to stop before, if we had."""
    if hung is not None:  # killed for its sake, whoever was beside it
        return Gone(reason=f"{hung}: {lost.reason}", proved=True)
    return Gone(reason=lost.reason, proved=True, aftermath=_AFTERMATHS[lost.blame])


def _assignment(
    table: Table,
    run: Run,
    *,
    predecessor_dead: bool,
    seen: TableView | None,
    largest_plan: int | None,
    stepped_back: int,
) -> Assignment:
    policy = table.policies[run.service]
    writes = () if seen is None else seen.writers.in_flight
    return Assignment(
        run=run.id,
        epoch=run.epoch,
        table=table.id,
        format=table.format,
        location=table.location,
        service=run.service,
        instant=run.instant,
        catalog=None if table.catalog is None else table.catalog.model_dump(mode="json"),
        table_options={} if table.options is None else table.options.model_dump(mode="json"),
        service_options={} if policy.options is None else policy.options.model_dump(mode="json"),
        largest_share=table.budget.percent if SERVICES[run.service].deletes else None,
        most_files=table.budget.files if SERVICES[run.service].deletes else None,
        predecessor_dead=predecessor_dead,
        last_beats={write.time: write.last_beat for write in writes if write.last_beat is not None},
        stopped_beats={write.time: write.stopped_at for write in writes if write.stopped_at is not None},
        largest_plan=largest_plan,
        stepped_back=stepped_back,
        session_conf=policy.session,
    )
