"""Active runs: from the queue to a slot, and from the end to the settled row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import (
    Asked,
    Assignment,
    CapacityChanged,
    Ended,
    Failed,
    FailureKind,
    Lost,
    NothingToDo,
    PoolEvent,
    Started,
    Yielded,
)
from lakewarden.executors.points import Point
from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.recovery import Recovery
from lakewarden.service.rules.dispatch import startable, waiting_for_slots
from lakewarden.service.rules.settle import (
    Gone,
    Settlement,
    after_cancel,
)
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.settling import RunSettler
from lakewarden.service.state.daemon_state import DaemonState, Resources

# A run as its worker gets it, from its row, its policy and what was seen of its table.


def assignment_of(
    table: Table,
    run: Run,
    *,
    seen: TableView | None,
    largest_plan: int | None,
    retries: int,
    retained: str | None,
) -> Assignment:
    """Return what the worker of a run needs to know. `seen` is the newest view of the table, if there is one."""
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
        last_beats={write.time: write.last_beat for write in writes if write.last_beat is not None},
        stopped_beats={write.time: write.stopped_at for write in writes if write.stopped_at is not None},
        largest_plan=largest_plan,
        retries=retries,
        rewrite_all=run.rewrite_all,
        retained=retained,
        session_conf=policy.session,
    )


log = structlog.get_logger(__name__)


class RunManager:
    """Carries runs out. Only the control thread calls it."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        ownership: Ownership,
        permit_queue: PermitQueue,
        precedence: Precedence,
        settled: Callable[[TableId], None],
        tell: Callable[[PoolEvent], None],
        orphans_live: timedelta,
    ) -> None:
        """`settled` gets every table with a settled run. `tell` leaves a message for the next turn.

        `orphans_live` is how long the workers of a dead owner may live after its runs can be adopted. It is zero if the
        end of a timed lease was waited for.
        """
        self._tables = state.tables
        self._pools = resources.pools
        self._observations = state.observations
        self._active_runs = state.active_runs
        self._folders = state.folders
        self._shares = ownership.shares
        self._permit_queue = permit_queue
        self._barriers = state.barriers
        self._service_states = state.service_states
        self._approvals = state.approvals
        self._precedence = precedence
        self._clock = resources.clock
        self._listener = resources.listener
        self._replica_lease = ownership.replica_lease
        self._settled = settled
        self._tell = tell
        self._recovery = Recovery(
            tables=state.tables,
            store=resources.store,
            active_runs=state.active_runs,
            clock=resources.clock,
            listener=resources.listener,
            owner=lambda: ownership.replica_lease.replica,
            orphans_live=orphans_live,
            deaths=ownership.deaths,
        )
        self.settler = RunSettler(
            resources=resources,
            state=state,
            recovery=self._recovery,
            permit_queue=permit_queue,
            settled=settled,
        )
        self._draining = False

    # -- the queue

    def recover(self, locations: Collection[str] | None = None) -> None:
        """Take over the runs of a dead owner on tables at these locations (None: on all).

        Queued runs go on, the others are settled. Idempotent. Raises TemporaryError if the store does not answer. Then
        it must be called again.
        """
        self._recovery.take_over(locations)
        self.settler.settle_unknown()

    def abandon(self) -> None:
        """Forget every run: our lease is lost, and our workers are gone. The runs are recovered like those of another
        owner.
        """
        self._recovery.abandon()
        self._permit_queue.abandon()
        self.settler.abandon()

    def _alone(self, rows: Iterable[Run]) -> Collection[tuple[TableId, Service]]:
        """Return the services with runs that may not run beside another one."""
        policies = {(row.table, row.service): self._policy(row.table, row.service) for row in rows}
        return {key for key, policy in policies.items() if policy is not None and not policy.beside}

    def _policy(self, table: TableId, service: Service) -> Policy | None:
        registered = self._tables.get(table)
        return None if registered is None else registered.policies.get(service)

    def dispatch(self) -> None:
        """Start every queued run that may start now, and tell the pools how many wait for a slot."""
        while not self._draining and self._replica_lease.holds():
            rows = self._active_runs.all()
            queued = self._queued(rows)
            if not queued:
                break
            run = startable(
                queued=queued,
                running=self._active_runs.under_way(),
                committing_tables=self._committing_tables(),
                behind_barrier={r.table for r in queued if self._barriers.closed(r.table)},
                alone=self._alone(rows),
                last=self._service_states.last_runs(),
                rank=self._precedence.rank,
                facts=self._precedence.pool_facts(rows),
            )
            if run is None or not self._start(run):
                break
        self._tell_what_waits()

    def _queued(self, rows: Sequence[Run]) -> list[Run]:
        """Return the runs in the queue that may start as far as the other runs of their tables are settled.

        If the ending of a run is not known, the worker of an earlier daemon may still work on the table. If a table in
        a catalog was never looked at, it may lie in the folder of any table of its format.
        """
        unsettled = {r.identity for r in rows if r.state is RunState.UNKNOWN}
        queued = [r for r in rows if r.state is RunState.QUEUED and r.identity not in unsettled]
        unseen = self._folders.unseen(self._shares.owned) if queued else frozenset()
        return [r for r in queued if self._precedence.is_led(r) and not self._waits(r, unseen)]

    def _waits(self, run: Run, unseen: Collection[str]) -> bool:
        registered = self._tables.get(run.table)
        return registered is not None and registered.format in unseen

    def _tell_what_waits(self) -> None:
        """Tell each pool how many runs wait for its slots. A daemon that starts no more runs needs no more workers."""
        rows = self._active_runs.all()
        may_start = not self._draining and self._replica_lease.holds()
        queued = self._queued(rows) if may_start else []
        waiting = waiting_for_slots(
            queued=queued,
            running=self._active_runs.under_way(),
            committing_tables=self._committing_tables(),
            behind_barrier={r.table for r in queued if self._barriers.closed(r.table)},
            alone=self._alone(rows),
            facts=self._precedence.pool_facts(rows),
        )
        for name, runs in waiting.items():
            self._pools[name].need(runs)

    def _start(self, run: Run) -> bool:
        try:
            leased = self._active_runs.take_lease(run, owner=self._replica_lease.replica, at=self._clock.now())
        except SupersededError:
            self._active_runs.let_go(run)  # another replica was faster
            return True
        table = self._tables[run.table]
        try:
            points.reach(Point.LEASED, run=run.id, service=run.service)
            seen = self._observations.kept(table.id)
            assignment = assignment_of(
                table,
                leased,
                seen=None if seen is None else seen.view,
                largest_plan=self._service_states.largest_plan(run.table, run.service),
                retries=self._service_states.tries(run.table, run.service),
                retained=self._approvals.retained(run),
            )
            profile = self._precedence.profile(run)
            self._active_runs.placed(leased, profile)  # before a worker has it, so that every answer reaches that one
            with self._replica_lease.held():
                self._pools[profile].submit(assignment)
        except TemporaryError as no_slot:
            # The run never began, and is not to blame. As a message this survives if the store cannot note it now.
            self._tell(Ended(run=run.id, outcome=Yielded(reason=str(no_slot))))
            return False
        except Exception as bug:  # the failure of one table must not end the daemon
            log.exception("run_not_started", run=run.id, table=run.table, service=run.service)
            reason = str(UnknownError.unforeseen(bug))
            self._tell(Ended(run=run.id, outcome=Failed(kind=FailureKind.UNKNOWN, reason=reason, step=Step.PLAN)))
        return True

    def _committing_tables(self) -> set[TableId]:
        """Return the tables on which a commit of ours waits or is under way. No new clean starts there."""
        waiting = self._permit_queue.at(Step.COMMIT)
        return {
            run.table
            for run in self._active_runs.under_way()
            if not SERVICES[run.service].delays_commits and (run.state is RunState.COMMITTING or run.id in waiting)
        }

    def drain(self) -> None:
        """Start no more runs."""
        self._draining = True

    # -- what an operator stops

    def check_cancellable(self, run: Run) -> None:
        """Raise PermanentError if an active run cannot be stopped any more."""
        if run.state in (RunState.COMMITTING, RunState.UNKNOWN):
            phase = "has begun to commit" if run.state is RunState.COMMITTING else "may still be at its commit"
            raise PermanentError(f"run {run.id} is {run.state}: it {phase}, and is left to end")

    def cancel(self, run: Run, *, by: str) -> Run:
        """Stop an active run that has not begun to commit. Its service backs off, or its policy would repeat it at
        once.

        A run in the queue has ended when this returns. A run of a worker ends as one with a refused permit does.
        """
        reason = f"cancelled by {by}"
        if run.state is not RunState.QUEUED:
            self.settler.cancelled(run)
            self._pools[self._precedence.profile(run)].cancel(run.id, reason)
            return run
        settlement = after_cancel(Settlement(state=RunState.CANCELLED, outcome=reason))
        ended = self._active_runs.end(run, settlement, at=self._clock.now())
        self._service_states.ended(run.table, run.service, settlement, None)
        self._listener.ended(ended)
        self._settled(run.table)
        return ended

    # -- what the pool reports

    def heard(self, event: PoolEvent) -> None:
        """Act on the report of a pool. Raises TemporaryError if the store cannot note it. Then it must be reported
        again.
        """
        match event:
            case CapacityChanged():
                return
            case Started() | Asked() | Ended() | Lost():
                run = self._active_runs.get(event.run)
            case _:
                assert_never(event)
        if run is None:
            return
        try:
            self._note(run, event)
        except SupersededError as late:
            self._permit_queue.reject(run, late, step=event.step if isinstance(event, Asked) else None)

    def _note(self, run: Run, event: Started | Asked | Ended | Lost) -> None:
        match event:
            case Started():
                if event.executor is not None or event.application is not None:
                    # Stored before the run may plan. So a later owner can prove this JVM and its executors dead, and
                    # knows which runs were in it.
                    run = self._active_runs.progress(run, executor=event.executor, application=event.application)
                self._listener.started(run)
            case Asked():
                self._permit_queue.asked(run, event)
            case Ended():
                hung = self._permit_queue.left(run)
                if isinstance(event.outcome, NothingToDo):
                    self._approvals.end(run)
                yielded = isinstance(event.outcome, Yielded)
                self.settler.ended(run, Gone(reason=hung, proved=True) if yielded and hung else event.outcome)
            case Lost():
                self.settler.lost(run, event, hung=self._permit_queue.left(run))
            case _:
                assert_never(event)
