"""The context of a permit: the facts that the answer to a request depends on. They are read right before it is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.decision import Blocked, Decision, WouldRun
from lakewarden.planners.model.instant import Instant, Service, State, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.rules.permits import Limits, PermitContext
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.run_requests import POLICY
from lakewarden.service.state.daemon_state import DaemonState, Resources


class PermitContexts:
    """Reads the contexts of the requests of runs. Only the control thread calls it."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        ownership: Ownership,
        precedence: Precedence,
        decisions: Callable[[TableId], Mapping[Service, Decision]],
        limits: Limits,
    ) -> None:
        """`decisions` returns the last decisions on a table."""
        self._tables = state.tables
        self._formats = resources.formats
        self._observations = state.observations
        self._store = resources.store
        self._active_runs = state.active_runs
        self._replica_lease = ownership.replica_lease
        self._proofs = state.proofs
        self._folders = state.folders
        self._service_states = state.service_states
        self._precedence = precedence
        self._approvals = state.approvals
        self._barriers = state.barriers
        self._decisions = decisions
        self._clock = resources.clock
        self._limits = limits
        self._draining = False
        self._cut_off = False

    def holds_lease(self) -> bool:
        """Whether this daemon has its lease."""
        return self._replica_lease.holds()

    def drain(self) -> None:
        """Grant no more plans."""
        self._draining = True

    def cut_off(self) -> None:
        """Grant no more steps, because the drain deadline has passed."""
        self._cut_off = True

    def of(self, run: Run, step: Step, plan: Plan | None, *, since: int, anew: bool = True) -> PermitContext | None:
        """Return the context from an observation of the table that was begun since that mark.

        Without `anew` an observation counts that was confirmed by an equal token. Return None while the table is being
        read. Raises what `observe` of the format raises.
        """
        table = self._tables[run.table]
        table_format = self._formats[table.format]
        observation = self._observations.since(table, since, anew=anew)
        if observation is None:
            return None
        view = observation.view
        self._folders.seen(table, view)
        shared = self._folders.blocked(table)
        self._proofs.seen(table, view)
        unproved = self._proofs.blocked(run.table)
        return PermitContext(
            view=view,
            endangered=table_format.endangered(view, run.service, step=step, instant=run.instant),
            awaited=table_format.awaited(view, run.service, step=step, instant=run.instant),
            neighbours=self._active_runs.neighbours(run),
            lease_held=self.holds_lease(),
            held=self._held(table, run, step),
            now=self._clock.now(),
            limits=self._limits,
            unfinished=self._unfinished(run, view),
            unapproved=self._unapproved(table, run, step, plan, view),
            behind_barrier=self._barriers.closed(run.table),
            shared=None if shared is None else shared.reason,
            unproved=None if unproved is None else unproved.reason,
            guarded=self._guarded(run, view),
            goes_first=self._goes_first(run, view),
        )

    def _held(self, table: Table, run: Run, step: Step) -> str | None:
        """Return a reason to stop that does not come from the metadata of the table, or None."""
        if self._cut_off:
            return "the drain deadline has passed"
        if self._draining and step is Step.PLAN:
            return "the daemon is draining"
        paused = self._service_states.paused(run.table)
        if paused is not None:
            return f"paused: {paused}"
        window = table.policies[run.service].window
        new = step is Step.PLAN and run.instant is None and run.requested_by == POLICY
        if new and window is not None and not window.contains(self._clock.now()):
            return "its window has closed"
        return None

    def _guarded(self, run: Run, view: TableView) -> bool:
        """Whether a heartbeat guards the instant of the run."""
        plan = next((instant for instant in view.timeline.pending(run.service) if instant.time == run.instant), None)
        return plan is not None and plan.guarded_until is not None and self._clock.now() < plan.guarded_until

    def _goes_first(self, run: Run, view: TableView) -> Run | None:
        """Return the queued run that goes first, or None.

        A run that takes up the plan of an earlier run goes before all others, because they wait for the end of that
        plan.
        """
        plan = next((instant for instant in view.timeline.pending(run.service) if instant.time == run.instant), None)
        if run.instant is not None and (plan is None or plan.author != run.id):
            return None
        return self._precedence.goes_first(run)

    def _unfinished(self, run: Run, view: TableView) -> list[Instant]:
        """Return the cleans of ours that were begun, that no worker carries out, and that will go on without an
        operator.
        """
        left = [
            (service, plan)
            for service in self._tables[run.table].policies
            if SERVICES[service].delays_commits and service is not run.service
            for plan in view.timeline.pending(service)
            if plan.state is State.INFLIGHT and self._goes_on(run.table, service)
        ]
        if not left:
            return []
        at_work = self._active_runs.neighbours(run)
        carried = {neighbour.instant for neighbour in at_work} | {neighbour.id for neighbour in at_work}
        return [
            plan
            for service, plan in left
            if plan.time not in carried and plan.author not in carried and self._is_ours(plan, service, run.identity)
        ]

    def _goes_on(self, table: TableId, service: Service) -> bool:
        decision = self._decisions(table).get(service)
        if isinstance(decision, WouldRun):
            return False
        return not isinstance(decision, Blocked) or decision.again_at is not None

    def _is_ours(self, plan: Instant, service: Service, identity: str) -> bool:
        return plan.author is not None or plan.time in self._store.instants(identity=identity, service=service)

    def _unapproved(self, table: Table, run: Run, step: Step, plan: Plan | None, view: TableView) -> str | None:
        if step is not Step.COMMIT or plan is None or not SERVICES[run.service].deletes:
            return None
        return self._approvals.missing(table, run, plan, view)
