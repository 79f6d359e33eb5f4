"""Runs under way: from the queue to a slot, and from the ending to the settled row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import structlog

from lakewarden.executors.contract import (
    Asked,
    Assignment,
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
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.model.timeline import Fate
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.barriers import Barriers
from lakewarden.service.book import Book
from lakewarden.service.dispatch import startable
from lakewarden.service.events import Listener
from lakewarden.service.questions import Questions
from lakewarden.service.settle import Gone, Settlement, settle
from lakewarden.service.standing import Standings
from lakewarden.service.store.port import ReplicaId, Run, RunState, Store, SupersededError
from lakewarden.service.watch import Watch

log = structlog.get_logger(__name__)

ORPHANED_WORKER_SECONDS = 10.0
"""A session worker whose daemon is gone ends itself and its JVM well within this time."""


class Runs:
    """Carries runs out. Only the control thread calls it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        pools: Mapping[str, Pool],
        watch: Watch,
        store: Store,
        book: Book,
        questions: Questions,
        barriers: Barriers,
        standings: Standings,
        clock: Clock,
        listener: Listener,
        owner: ReplicaId,
        settled: Callable[[TableId], None],
        tell: Callable[[PoolEvent], None],
    ) -> None:
        """`settled` is told of every table with a settled run; `tell` leaves a letter for the next turn."""
        self._tables = tables
        self._pools = pools
        self._watch = watch
        self._store = store
        self._book = book
        self._questions = questions
        self._barriers = barriers
        self._standings = standings
        self._clock = clock
        self._listener = listener
        self._owner = owner
        self._settled = settled
        self._tell = tell
        self._alone = {
            (table.id, service)
            for table in tables.values()
            for service, policy in table.policies.items()
            if not policy.beside
        }
        self._orphans_gone_at = 0.0
        self._draining = False

    # -- the queue

    def recover(self) -> None:
        """Take over what an earlier daemon left: queued runs go on, the others are settled by the timeline.

        A worker of a killed daemon may live for a moment longer, so only what the timeline shows as completed is
        settled at once; the rest waits, as UNKNOWN, until every such worker must be gone.
        """
        self._orphans_gone_at = self._clock.monotonic() + ORPHANED_WORKER_SECONDS
        for run in self._store.active():
            self._book.take_in(run)
            if run.state is RunState.QUEUED and not self._wanted(run):
                self._write_off(run)
            elif run.state is not RunState.QUEUED:
                self._book.progress(run, state=RunState.UNKNOWN)
        self.settle_unknown()

    def _wanted(self, run: Run) -> bool:
        """Whether the configuration, which may be another one since, still lets the run's service act."""
        table = self._tables.get(run.table)
        return table is not None and table.mode is Mode.ACT and run.service in table.policies

    def _write_off(self, run: Run) -> None:
        reason = "the configuration no longer lets this service run on the table"
        self._book.end(run, Settlement(state=RunState.CANCELLED, outcome=reason), at=self._clock.now())

    def dispatch(self) -> None:
        """Start every queued run that may start now."""
        while not self._draining:
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
                pools={table.id: table.spark for table in self._tables.values()},
                rooms={name: pool.room() for name, pool in self._pools.items()},
            )
            if run is None or not self._start(run):
                return

    def _start(self, run: Run) -> bool:
        try:
            claimed = self._book.claim(run, owner=self._owner, at=self._clock.now())
        except SupersededError:
            self._book.let_go(run)  # another replica was faster
            return True
        table = self._tables[run.table]
        try:
            FAULTS.reach(Point.CLAIMED, run=run.id, service=run.service)
            self._pools[table.spark].submit(_assignment(table, claimed))
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
                self._listener.started(run)
            case Asked():
                self._questions.asked(run, event)
            case Ended():
                hung = self._questions.left(run)
                stepped_back = isinstance(event.outcome, Yielded)
                self._settle(run, Gone(reason=hung) if stepped_back and hung is not None else event.outcome)
            case Lost():
                hung = self._questions.left(run)
                self._settle(run, Gone(reason=event.reason if hung is None else f"{hung}: {event.reason}"))
            case _:
                assert_never(event)

    # -- settling

    def settle_unknown(self) -> None:
        """Try again to settle the runs whose ending only the timeline knows."""
        orphans_gone = self._clock.monotonic() >= self._orphans_gone_at
        for run in self._book.all():
            if run.state is not RunState.UNKNOWN or run.table not in self._tables:
                continue
            fate, _ = self._fate(run)
            if fate is Fate.COMPLETED or (fate is not None and orphans_gone):
                try:
                    self._settle(run, Gone(reason="its worker or the daemon was stopped while it was under way"))
                except SupersededError as late:
                    self._questions.disown(run, late)

    def _settle(self, run: Run, ending: Outcome | Gone) -> None:
        fate, view = self._fate(run)
        settlement = settle(ending, fate, run)
        FAULTS.reach(Point.SETTLED, run=run.id, service=run.service)
        if settlement.state is RunState.UNKNOWN:
            run = self._book.progress(run, state=RunState.UNKNOWN)
        else:
            run = self._book.end(run, settlement, at=self._clock.now())
            FAULTS.reach(Point.NOTIFIED, run=run.id, service=run.service)
            planned_on = self._questions.ended(run)
            # Off the timeline a service counts from what it left, not from what it found.
            seen = view if run.off_timeline or planned_on is None else planned_on
            if view is None or str(view.identity) == run.identity:  # a table made anew is not to blame for the old one
                self._standings.ended(run.table, run.service, settlement, seen)
        self._listener.ended(run)
        self._settled(run.table)

    def _fate(self, run: Run) -> tuple[Fate | None, TableView | None]:
        """Return what the timeline, read now, says of a run; None where it cannot be read whole."""
        try:
            view = self._watch.read(self._tables[run.table]).observation.view
        except LakewardenError:
            return None, None  # a table that cannot be found now may be back in a moment: nothing is guessed
        if str(view.identity) != run.identity:
            return Fate.ABSENT, view  # dropped and made again: what we did went with the old table
        if view.faults:
            return None, view
        return view.timeline.fate(run=run.id, instant=run.instant), view


def _assignment(table: Table, run: Run) -> Assignment:
    policy = table.policies[run.service]
    return Assignment(
        run=run.id,
        epoch=run.epoch,
        table=table.id,
        format=table.format,
        location=table.location,
        service=run.service,
        instant=run.instant,
        table_options={} if table.options is None else table.options.model_dump(mode="json"),
        service_options={} if policy.options is None else policy.options.model_dump(mode="json"),
        counts_files=SERVICES[run.service].deletes and table.budget.percent is not None,
    )
