"""The context of a permit: what the answer to a run's question depends on, gathered right before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.executors.contract import Plan, Step
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.ownership.run_leases import RunLeases
from lakewarden.service.rules.permits import Circumstances, Limits
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.requests import POLICY
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Observations
from lakewarden.service.store.port import Store


class PermitContexts:
    """Looks around for the questions of runs. Only the control thread calls it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        formats: Mapping[str, TableFormat],
        watch: Observations,
        store: Store,
        book: ActiveRuns,
        leases: RunLeases,
        claims: Claims,
        proofs: LockProofs,
        freed: DeadExecutors,
        standings: Backoffs,
        precedence: Precedence,
        approvals: Approvals,
        barriers: Barriers,
        decisions: Callable[[TableId], Mapping[Service, Decision]],
        clock: Clock,
        limits: Limits,
    ) -> None:
        """`decisions` returns the last decisions on a table."""
        self._tables = tables
        self._formats = formats
        self._watch = watch
        self._store = store
        self._book = book
        self._leases = leases
        self._claims = claims
        self._proofs = proofs
        self._freed = freed
        self._standings = standings
        self._precedence = precedence
        self._approvals = approvals
        self._barriers = barriers
        self._decisions = decisions
        self._clock = clock
        self._limits = limits
        self._draining = False
        self._cut_off = False

    def drain(self) -> None:
        """Let nothing be planned any more."""
        self._draining = True

    def cut_off(self) -> None:
        """Let no step be taken any more: the drain deadline has passed."""
        self._cut_off = True

    def of(self, run: Run, step: Step, plan: Plan | None, *, since: int, anew: bool = True) -> Circumstances | None:
        """Return what the run's table, and its claim, are by looks that were begun since that mark (of the table, where
        it is not asked for `anew`, by its token); None while they are being looked at. Raises what the format's
        `observe` raises.
        """
        table = self._tables[run.table]
        table_format = self._formats[table.format]
        observation = self._watch.since(table, since, anew=anew)
        if observation is None:
            return None
        if not self._claims.known_since(run.table, since):  # of a table that is there: it is claimed if it was not
            return None
        view, claimed = observation.view, self._claims.missing(run.table)
        self._proofs.seen(table, view)
        unproved = self._proofs.blocked(run.table)
        return Circumstances(
            view=view,
            endangered=table_format.endangered(view, run.service, step=step, instant=run.instant),
            awaited=table_format.awaited(view, run.service, step=step, instant=run.instant),
            neighbours=self._book.neighbours(run),
            lease_held=self._leases.holds(run),
            held=self._held(table, run, step),
            now=self._clock.now(),
            limits=self._limits,
            unfinished=self._unfinished(run, view),
            unapproved=self._unapproved(table, run, step, plan),
            barred=self._barriers.closed(run.table),
            claimed=claimed,
            unproved=None if unproved is None else unproved.reason,
            guarded=self._guarded(run, view),
            goes_first=self._goes_first(run, view),
        )

    def were_read(self, run: Run, *, since: int) -> bool:
        """Whether the run's table was read since that mark, and did not only still stand by its token."""
        return self._watch.read_since(run.table, since)

    def _held(self, table: Table, run: Run, step: Step) -> str | None:
        """Return a reason to stop that has nothing to do with the table's metadata."""
        if self._cut_off:
            return "the drain deadline has passed"
        if self._draining and step is Step.PLAN:
            return "the daemon is draining"
        paused = self._standings.paused(run.table)
        if paused is not None:
            return f"paused: {paused}"
        window = table.policies[run.service].window
        new = step is Step.PLAN and run.instant is None and run.requested_by == POLICY
        if new and window is not None and not window.contains(self._clock.now()):
            return "its window has closed"
        return None

    def _guarded(self, run: Run, view: TableView) -> bool:
        """Whether the heartbeat of an executor that may be alive guards the run's instant."""
        plan = next((one for one in view.timeline.pending(run.service) if one.time == run.instant), None)
        if plan is None or plan.guarded_until is None or self._clock.now() >= plan.guarded_until:
            return False
        return not self._freed.includes(run, plan)

    def _goes_first(self, run: Run, view: TableView) -> Run | None:
        """Return the queued run that a run gives way to. What takes up a plan of an earlier run gives way to none:
        others wait for that plan to be finished.
        """
        plan = next((one for one in view.timeline.pending(run.service) if one.time == run.instant), None)
        if run.instant is not None and (plan is None or plan.author != run.id):
            return None
        return self._precedence.goes_first(run)

    def _unfinished(self, run: Run, view: TableView) -> list[Instant]:
        """Return the cleans of ours that were begun, that nobody is at, and that will go on without a person."""
        left = [
            (service, plan)
            for service in self._tables[run.table].policies
            if SERVICES[service].barrier and service is not run.service
            for plan in view.timeline.pending(service)
            if plan.state is State.INFLIGHT and self._goes_on(run.table, service)
        ]
        if not left:
            return []
        at_work = self._book.neighbours(run)
        carried = {neighbour.instant for neighbour in at_work} | {neighbour.id for neighbour in at_work}
        return [
            plan
            for service, plan in left
            if plan.time not in carried and plan.author not in carried and self._is_ours(plan, service, run.identity)
        ]

    def _goes_on(self, table: TableId, service: Service) -> bool:
        decision = self._decisions(table).get(service)
        return not isinstance(decision, Blocked) or decision.again_at is not None

    def _is_ours(self, plan: Instant, service: Service, identity: str) -> bool:
        return plan.author is not None or plan.time in self._store.instants(identity=identity, service=service)

    def _unapproved(self, table: Table, run: Run, step: Step, plan: Plan | None) -> str | None:
        if step is not Step.COMMIT or plan is None or not SERVICES[run.service].deletes:
            return None
        return self._approvals.missing(table, run, plan)
