"""Requests: decisions become rows. A run is in the store before anything else happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.planners.decide import decide
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, Decision, Due, NotDue
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.rules.settle import completed_by_another
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.left_plans import LeftPlans
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.vanished_instants import Completed, vanished
from lakewarden.service.store.port import Store

POLICY = "policy"
"""Who asked for a run that its policy made due."""


class Requests:
    """Decides on tables and queues what is due. Only the control thread calls it."""

    def __init__(
        self,
        *,
        store: Store,
        standings: Backoffs,
        approvals: Approvals,
        claims: Claims,
        proofs: LockProofs,
        freed: DeadExecutors,
        clock: Clock,
        listener: Listener,
        new_id: Callable[[], RunId],
    ) -> None:
        self._store = store
        self._standings = standings
        self._approvals = approvals
        self._claims = claims
        self._proofs = proofs
        self._freed = freed
        self._clock = clock
        self._listener = listener
        self._new_id = new_id
        self._left = LeftPlans()
        self._completed = Completed(store)
        self._decisions: dict[TableId, Mapping[Service, Decision]] = {}

    def consider(self, table: Table, view: TableView, active: Mapping[Service, Run]) -> list[Run]:
        """Decide on every service that the table has a policy for, and return the runs that were queued for it."""
        self._proofs.seen(table, view)
        if self._claims.blocked(table.id) is not None:
            self._left.forget(table.id)  # a plan of ours is carried out by who has claimed the table
        for service, instant in self._left.completed_by_others(table.id, view).items():
            self._standings.quarantine(table.id, service, completed_by_another(instant))
        for service, instant in self._completed.vanished(table, view, active=active).items():
            self._standings.quarantine(table.id, service, vanished(instant))
        ours = {service: self._ours(view, service) for service in table.policies}
        decisions = {
            service: self._decide(table, service, view, active.get(service), ours[service], asked=False)
            for service in table.policies
        }
        self._remember(table, decisions)
        due = {service: decision for service, decision in decisions.items() if isinstance(decision, Due)}
        queued = [
            self._queue(table, service, view, due[service], by=POLICY)
            # Cleans first: what was left half-way is finished before anything else is committed.
            for service in sorted(due, key=lambda service: not SERVICES[service].barrier)
        ]
        if self._claims.blocked(table.id) is None:
            self._left.remember(table.id, view, ours, [*active.values(), *queued])
        return queued

    def ask(
        self, table: Table, service: Service, view: TableView, active: Run | None, *, by: str
    ) -> Run | Blocked | NotDue:
        """Queue a run that a person asked for: the trigger is skipped, a block is not."""
        self._proofs.seen(table, view)
        decision = self._decide(table, service, view, active, self._ours(view, service), asked=True)
        if isinstance(decision, Due):
            return self._queue(table, service, view, decision, by=by)
        return decision

    def unreadable(self, table: Table, reason: str) -> None:
        """Write down that nothing can be decided on a table."""
        self._remember(table, dict.fromkeys(table.policies, Blocked(reason=reason)))

    def forget(self, table: TableId) -> None:
        """Forget what was decided on a table, and what was left there: others may go on with it."""
        self._decisions.pop(table, None)
        self._left.forget(table)
        self._proofs.forget(table)
        self._completed.forget(table)

    def decisions(self, table: TableId) -> Mapping[Service, Decision]:
        """Return the last decisions on a table."""
        return self._decisions.get(table, {})

    def _ours(self, view: TableView, service: Service) -> frozenset[str]:
        """Return the instants of pending plans that runs of ours made or took up, as far as the store remembers."""
        pending = view.timeline.pending(service)
        if not pending:  # only a pending plan raises the question whose it is
            return frozenset()
        signed = {plan.time for plan in pending if plan.author is not None}
        return self._store.instants(identity=str(view.identity), service=service) | signed

    def _decide(
        self,
        table: Table,
        service: Service,
        view: TableView,
        active: Run | None,
        ours: frozenset[str],
        *,
        asked: bool,
    ) -> Decision:
        return decide(
            service=service,
            view=view,
            policy=table.policies[service],
            standing=self._standings.of(
                table,
                service,
                active=None if active is None else active.id,
                ours=ours,
                approval=self._approvals.waiting(table, service, view),
                claimed=self._claims.blocked(table.id),
                unproved=self._proofs.blocked(table.id),
                freed=self._freed.of(table.id, view, service, ours=ours),
            ),
            now=self._clock.now(),
            asked=asked,
        )

    def _queue(self, table: Table, service: Service, view: TableView, due: Due, *, by: str) -> Run:
        run = self._store.request(
            Run(
                id=self._new_id(),
                table=table.id,
                identity=str(view.identity),
                service=service,
                state=RunState.QUEUED,
                reason=due.reason,
                requested_by=by,
                created_at=self._clock.now(),
                instant=due.instant,
            )
        )
        self._left.taken_up(run)
        self._completed.begun(run.table, run.service)
        self._listener.requested(run)
        return run

    def _remember(self, table: Table, decisions: Mapping[Service, Decision]) -> None:
        before = self._decisions.get(table.id, {})
        news = {service: decision for service, decision in decisions.items() if before.get(service) != decision}
        if not news:
            return
        now = self._clock.now()
        self._store.decided(
            [
                DecisionRow(
                    table=table.id,
                    service=service,
                    decision=type(decision).__name__,
                    reason=decision.reason,
                    remedy=decision.remedy if isinstance(decision, Blocked) else None,
                    again_at=None if isinstance(decision, Due) else decision.again_at,
                    decided_at=now,
                )
                for service, decision in news.items()
            ]
        )
        self._decisions[table.id] = decisions  # not before: what the store could not keep is news again
        for service, decision in news.items():
            self._listener.decided(table, service, decision)
