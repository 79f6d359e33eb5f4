"""Runs under way: from the queue to a slot, from question to permit, from the ending to the settled row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Granted,
    Lost,
    Outcome,
    Plan,
    Pool,
    PoolEvent,
    Refused,
    RoomChanged,
    Started,
    Step,
    Wait,
    Yielded,
)
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.model.timeline import Fate
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.services import SERVICES
from lakewarden.service.dispatch import startable
from lakewarden.service.events import Listener
from lakewarden.service.leases import Leases
from lakewarden.service.permits import Circumstances, Limits, Question, judge
from lakewarden.service.settle import Gone, Settlement, settle
from lakewarden.service.standing import Standings
from lakewarden.service.store.port import Run, RunState, Store, SupersededError
from lakewarden.service.watch import Watch

log = structlog.get_logger(__name__)

ORPHANED_WORKER_SECONDS = 10.0
"""A session worker whose daemon is gone ends itself and its JVM well within this time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Open:
    """A question that has not been answered yet."""

    step: Step
    plan: Plan | None
    asked_at: float
    waits_for: str = ""


class Runs:
    """Carries runs out. Only the control thread calls it; what it holds may be read from anywhere."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        formats: Mapping[str, TableFormat],
        pools: Mapping[str, Pool],
        watch: Watch,
        store: Store,
        leases: Leases,
        standings: Standings,
        clock: Clock,
        listener: Listener,
        limits: Limits,
        owner: str,
        settled: Callable[[TableId], None],
        tell: Callable[[PoolEvent], None],
    ) -> None:
        """`settled` is told of every table with a settled run; `tell` leaves a letter for the next turn."""
        self._tables = tables
        self._formats = formats
        self._pools = pools
        self._watch = watch
        self._store = store
        self._leases = leases
        self._standings = standings
        self._clock = clock
        self._listener = listener
        self._limits = limits
        self._owner = owner
        self._settled = settled
        self._tell = tell
        self._runs: dict[RunId, Run] = {}
        self._questions: dict[RunId, _Open] = {}
        self._planned_on: dict[RunId, TableView] = {}
        self._orphans_gone_at = 0.0
        self._draining = False
        self._cut_off = False

    # -- what there is

    def of(self, table: TableId) -> Mapping[Service, Run]:
        """Return the table's runs that have not ended."""
        return {run.service: run for run in list(self._runs.values()) if run.table == table}

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that stand at a question, each with what it waits for."""
        return {run: question.waits_for for run, question in list(self._questions.items())}

    def under_way(self) -> list[Run]:
        """Return the runs that a worker is carrying out."""
        return [run for run in list(self._runs.values()) if run.state in (RunState.RUNNING, RunState.COMMITTING)]

    # -- the queue

    def queue(self, run: Run) -> None:
        """Take a run into the queue; one that is known already stays as it is."""
        self._runs.setdefault(run.id, run)

    def recover(self) -> None:
        """Take over what an earlier daemon left: queued runs go on, the others are settled by the timeline.

        A worker of a killed daemon may live for a moment longer, so only what the timeline shows as completed is
        settled at once; the rest waits, as UNKNOWN, until every such worker must be gone.
        """
        self._orphans_gone_at = self._clock.monotonic() + ORPHANED_WORKER_SECONDS
        for run in self._store.active():
            self._runs[run.id] = run
            if run.state is RunState.QUEUED and not self._wanted(run):
                self._write_off(run)
            elif run.state is not RunState.QUEUED:
                self._runs[run.id] = self._store.progress(run.id, epoch=run.epoch, state=RunState.UNKNOWN)
        self.settle_unknown()

    def _wanted(self, run: Run) -> bool:
        """Whether the configuration, which may be another one since, still lets the run's service act."""
        table = self._tables.get(run.table)
        return table is not None and table.mode is Mode.ACT and run.service in table.policies

    def _write_off(self, run: Run) -> None:
        reason = "the configuration no longer lets this service run on the table"
        self._write_down(run, Settlement(state=RunState.CANCELLED, outcome=reason))
        del self._runs[run.id]

    def dispatch(self) -> None:
        """Start every queued run that may start now."""
        while not self._draining:
            # Where an ending is not known, an earlier daemon's worker may still be at the table.
            unsettled = {r.identity for r in self._runs.values() if r.state is RunState.UNKNOWN}
            queued = [r for r in self._runs.values() if r.state is RunState.QUEUED and r.identity not in unsettled]
            if not queued:
                return
            run = startable(
                queued=queued,
                running=self.under_way(),
                gates=self._gates(),
                pools={table.id: table.spark for table in self._tables.values()},
                rooms={name: pool.room() for name, pool in self._pools.items()},
            )
            if run is None or not self._start(run):
                return

    def _start(self, run: Run) -> bool:
        try:
            claimed = self._store.claim(run.id, owner=self._owner, at=self._clock.now())
        except SupersededError:
            del self._runs[run.id]  # another replica was faster
            return True
        self._runs[run.id] = claimed
        table = self._tables[run.table]
        try:
            self._pool(run).submit(_assignment(table, claimed))
        except TemporaryError as no_slot:
            # It never began, and nobody is to blame. As a letter it survives a store that cannot note it now.
            self._tell(Ended(run=run.id, outcome=Yielded(reason=str(no_slot))))
            return False
        return True

    def _pool(self, run: Run) -> Pool:
        return self._pools[self._tables[run.table].spark]

    def _gates(self) -> set[TableId]:
        """Return the tables where a commit of ours waits or is under way: no new clean starts there."""
        waiting = {run for run, question in self._questions.items() if question.step is Step.COMMIT}
        return {
            run.table
            for run in self.under_way()
            if not SERVICES[run.service].barrier and (run.state is RunState.COMMITTING or run.id in waiting)
        }

    def drain(self) -> None:
        """Start nothing any more and plan nothing; what is being executed may go on."""
        self._draining = True

    def cut_off(self) -> None:
        """Refuse every further step: the drain deadline has passed."""
        self._cut_off = True

    # -- what the pool tells

    def heard(self, event: PoolEvent) -> None:
        """Act on what a pool tells. Raises TemporaryError if the store cannot note it: tell it again."""
        match event:
            case RoomChanged():
                return
            case Started() | Asked() | Ended() | Lost():
                run = self._runs.get(event.run)
            case _:
                assert_never(event)
        if run is None:
            return
        try:
            self._note(run, event)
        except SupersededError as late:
            self._disown(run, late, asked=event.step if isinstance(event, Asked) else None)

    def _disown(self, run: Run, late: SupersededError, *, asked: Step | None = None) -> None:
        """Let go of a run whose lease somebody else has: its story is theirs to tell, its worker is sent home."""
        log.warning("late_result_rejected", run=run.id, error=str(late))
        self._questions.pop(run.id, None)
        self._runs.pop(run.id, None)
        self._planned_on.pop(run.id, None)
        if asked is not None:
            self._pool(run).answer(run.id, asked, Refused(reason=str(late)))

    def _note(self, run: Run, event: Started | Asked | Ended | Lost) -> None:
        match event:
            case Started():
                self._listener.started(run)
            case Asked():
                self._asked(run, event)
            case Ended():
                self._questions.pop(run.id, None)
                self._settle(run, event.outcome)
            case Lost():
                self._questions.pop(run.id, None)
                self._settle(run, Gone(reason=event.reason))
            case _:
                assert_never(event)

    def _asked(self, run: Run, asked: Asked) -> None:
        if asked.plan is not None and run.instant != asked.plan.instant:
            # Stored before any further permit: after a crash the row must name the instant it is about.
            self._runs[run.id] = self._store.progress(run.id, epoch=run.epoch, instant=asked.plan.instant)
        self._questions[run.id] = _Open(step=asked.step, plan=asked.plan, asked_at=self._clock.monotonic())

    # -- permits

    def review(self) -> None:
        """Judge every open question again, with a fresh look at its table."""
        for run_id, question in list(self._questions.items()):
            run = self._runs[run_id]
            try:
                self._judge(run, question)
            except SupersededError as late:
                self._disown(run, late, asked=question.step)

    def _judge(self, run: Run, question: _Open) -> None:
        waited = timedelta(seconds=self._clock.monotonic() - question.asked_at)
        try:
            around = self._circumstances(run, question.step)
        except LakewardenError as unreadable:
            if waited < self._limits.commit_patience:
                self._questions[run.id] = _reworded(question, str(unreadable))
                return
            self._answer(run, question, Refused(reason=str(unreadable)), waited)
            return
        permit = judge(Question(run=run, step=question.step, plan=question.plan, waited=waited), around)
        match permit:
            case Wait():
                if permit.reason != question.waits_for:
                    self._questions[run.id] = _reworded(question, permit.reason)
                    self._listener.permit(run, question.step, permit, waited)
            case Granted() | Refused():
                if question.step is Step.PLAN:
                    self._planned_on[run.id] = around.view  # what comes after it, the run may not have seen
                self._answer(run, question, permit, waited)
            case _:
                assert_never(permit)

    def _circumstances(self, run: Run, step: Step) -> Circumstances:
        table = self._tables[run.table]
        view = self._watch.read(table).observation.view
        return Circumstances(
            view=view,
            endangered=self._formats[table.format].endangered(view, run.service, step=step, instant=run.instant),
            neighbours=[r for r in self.under_way() if r.identity == run.identity and r.id != run.id],
            lease_held=self._leases.holds(run),
            held=self._held(run, step),
            now=self._clock.now(),
            limits=self._limits,
        )

    def _held(self, run: Run, step: Step) -> str | None:
        """Return a reason to stop that has nothing to do with the table's metadata."""
        if self._cut_off:
            return "the drain deadline has passed"
        if self._draining and step is Step.PLAN:
            return "the daemon is draining"
        paused = self._standings.paused(run.table)
        return None if paused is None else f"paused: {paused}"

    def _answer(self, run: Run, question: _Open, permit: Granted | Refused, waited: timedelta) -> None:
        if isinstance(permit, Granted):
            state = RunState.COMMITTING if question.step is Step.COMMIT else None
            run = self._store.progress(run.id, epoch=run.epoch, step=question.step, state=state)
            self._runs[run.id] = run
        del self._questions[run.id]  # not before: a question that the store could not note stays open
        self._listener.permit(run, question.step, permit, waited)
        self._pool(run).answer(run.id, question.step, permit)

    # -- settling

    def settle_unknown(self) -> None:
        """Try again to settle the runs whose ending only the timeline knows."""
        orphans_gone = self._clock.monotonic() >= self._orphans_gone_at
        for run in list(self._runs.values()):
            if run.state is not RunState.UNKNOWN or run.table not in self._tables:
                continue
            fate, _ = self._fate(run)
            if fate is Fate.COMPLETED or (fate is not None and orphans_gone):
                try:
                    self._settle(run, Gone(reason="its worker or the daemon was stopped while it was under way"))
                except SupersededError as late:
                    self._disown(run, late)

    def _settle(self, run: Run, ending: Outcome | Gone) -> None:
        fate, view = self._fate(run)
        settlement = settle(ending, fate)
        if settlement.state is RunState.UNKNOWN:
            run = self._store.progress(run.id, epoch=run.epoch, state=RunState.UNKNOWN)
            self._runs[run.id] = run
        else:
            run = self._write_down(run, settlement)
            del self._runs[run.id]
            seen = self._planned_on.pop(run.id, view)
            if view is None or str(view.identity) == run.identity:  # a table made anew is not to blame for the old one
                self._standings.ended(run.table, run.service, settlement, seen)
        self._listener.ended(run)
        self._settled(run.table)

    def _write_down(self, run: Run, settlement: Settlement) -> Run:
        return self._store.end(
            run.id,
            epoch=run.epoch,
            state=settlement.state,
            outcome=settlement.outcome,
            figures=settlement.figures,
            at=self._clock.now(),
        )

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


def _reworded(question: _Open, waits_for: str) -> _Open:
    return _Open(step=question.step, plan=question.plan, asked_at=question.asked_at, waits_for=waits_for)


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
    )
