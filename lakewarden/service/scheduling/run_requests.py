"""Requests: decisions become rows. A run is in the store before anything else happens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.planners.decide import decide, next_decision_at
from lakewarden.planners.model.decision import (
    Blocked,
    Decision,
    DoesNotApply,
    Due,
    NotDue,
    WouldRun,
    as_read,
    is_change,
    not_observed,
)
from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.model.view import Blocker, TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.rows import DecisionRow, RewriteRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import completed_by_another
from lakewarden.service.scheduling.table_proofs import TableProofs
from lakewarden.service.state.approvals import in_words
from lakewarden.service.state.daemon_state import DaemonState, Resources
from lakewarden.service.state.table_registry import Completed, LeftPlans, vanished

POLICY = "policy"
"""The requester of a run that its policy made due."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _News:
    """Decisions on a table that are not in the store yet: `earlier` is what held in this life, `before` in any."""

    table: Table
    decisions: Mapping[Service, Decision]
    before: Mapping[Service, Decision]
    earlier: Mapping[Service, Decision] | None
    at: datetime

    def rows(self, *, changes: bool) -> Sequence[DecisionRow]:
        """Return the rows of all decisions, or of those alone that people would call changes."""
        return [
            DecisionRow.of(self.table.id, service, decision, self.at)
            for service, decision in self.decisions.items()
            if not changes or is_change(self.before.get(service), decision)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Considered:
    """What `queue` needs of the last decisions on a table."""

    view: TableView
    due: Mapping[Service, Due]
    ours: Mapping[Service, frozenset[str]]
    active: Sequence[Run]
    withheld: bool


class Requests:
    """Decides on tables and queues the runs that are due. Only the control thread calls it.

    The decisions of many tables are stored at once: a database syncs its disk for each transaction.
    """

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        new_id: Callable[[], RunId],
        table_proofs: TableProofs,
    ) -> None:
        self._store = resources.store
        self._tables = state.tables
        self._service_states = state.service_states
        self._approvals = state.approvals
        self._rewrites = state.rewrites
        self._proofs = state.proofs
        self._clock = resources.clock
        self._listener = resources.listener
        self._new_id = new_id
        self._table_proofs = table_proofs
        self._writer_signs = state.writer_signs
        self._foreign_services = state.foreign_services
        self._kept_by_others = state.kept_by_others
        self._folders = state.folders
        self._active_runs = state.active_runs
        self._left = LeftPlans()
        self._completed = Completed(resources.store)
        self._decisions: dict[TableId, Mapping[Service, Decision]] = {}
        self._planned: dict[TableId, Mapping[Service, Decision]] = {}
        """The decisions on tables that are only observed, as they would be in the mode `plan`."""
        self._news: list[_News] = []
        self._considered: dict[TableId, _Considered] = {}
        self._before: dict[TableId, dict[Service, Decision]] = {}
        """The stored decisions on tables, until there is one of this life. They are of an earlier life, or of an
        earlier owner of the table. A decision that has not changed since is no news. Otherwise each start would report
        the whole fleet anew.
        """

    def recall(self, tables: Collection[Table]) -> None:
        """Read from the store, in one go, what the first decisions on tables need. Raises TemporaryError."""
        first = {table.id: table for table in tables if table.id not in self._decisions}
        unread = first.keys() - self._before.keys()
        if unread:
            before: dict[TableId, dict[Service, Decision]] = {table: {} for table in unread}
            for row in self._store.decisions(*unread):
                before[row.table][row.service] = row.as_decision()
            self._before |= before
        self._completed.recall(first.values())

    def consider(self, table: Table, view: TableView) -> None:
        """Decide on every service that has a policy on the table. `keep` stores it, `queue` queues the runs."""
        self._look_at(table, view)
        self._active_runs.take_in_what_was_stored(table.id)
        active = self._active_runs.of(table.id)
        withheld = self._folders.blocked(table)
        if withheld is not None:
            self._left.forget(table.id)  # runs on the other name of the folder may carry out a plan of ours
        for service, instant in self._left.completed_by_others(table.id, view).items():
            self._service_states.quarantine(table.id, service, completed_by_another(instant))
        for service, instant in self._completed.vanished(table, view, active=active).items():
            self._service_states.quarantine(table.id, service, vanished(instant))
        ours = {service: self._ours(view, service) for service in table.policies}
        proof = self._table_proofs.lacking(table, view)  # once for all services: it looks at the whole timeline
        each = table.policies
        decisions = {
            service: self._decide(table, service, view, active.get(service), ours[service], lacking=proof)
            for service in each
        }
        self._remember(table, decisions)
        if table.mode is Mode.OBSERVE:
            plan = {
                service: self._decide(table, service, view, None, ours[service], lacking=proof, mode=Mode.PLAN)
                for service in each
            }
            self._planned[table.id] = plan
        self._considered[table.id] = _Considered(
            view=view,
            due={service: decision for service, decision in decisions.items() if isinstance(decision, Due)},
            ours=ours,
            active=[*active.values()],
            withheld=withheld is not None,
        )

    def keep(self) -> None:
        """Store what was decided since the last call, and report it. If the store does not answer, it counts as not
        decided. Raises TemporaryError.
        """
        unkept, self._news = self._news, []
        if not unkept:
            return
        try:
            self._store.decided(
                [row for news in unkept for row in news.rows(changes=False)],
                changes=[row for news in unkept for row in news.rows(changes=True)],
            )
        except TemporaryError:
            for news in reversed(unkept):
                self._considered.pop(news.table.id, None)
                if news.earlier is None:
                    self._decisions.pop(news.table.id, None)
                else:
                    self._decisions[news.table.id] = news.earlier
            raise
        for news in unkept:
            for service, decision in news.decisions.items():
                self._tell(news.table, service, news.before.get(service), decision, first=news.earlier is None)

    def queue(self, table: Table) -> None:
        """Queue the runs of a table that are due by its last decisions, which `keep` has stored."""
        considered = self._considered.pop(table.id, None)
        if considered is None:
            return
        queued = [
            self._queue(table, service, considered.view, considered.due[service], by=POLICY)
            # Cleans first: a clean that was left unfinished is finished before anything else is committed.
            for service in sorted(considered.due, key=lambda service: not SERVICES[service].delays_commits)
        ]
        if not considered.withheld:
            self._left.remember(table.id, considered.view, considered.ours, [*considered.active, *queued])

    def ask(
        self, table: Table, service: Service, view: TableView, active: Run | None, *, by: str
    ) -> Run | Blocked | NotDue | WouldRun | DoesNotApply:
        """Queue a run that an operator asked for. The trigger is skipped, a block is not."""
        self._look_at(table, view)
        decision = self.would(table, service, view, active)
        return self._queue(table, service, view, decision, by=by) if isinstance(decision, Due) else decision

    def would(
        self, table: Table, service: Service, view: TableView, active: Run | None, *, rewrite: RewriteRow | None = None
    ) -> Decision:
        """Return the decision that `ask` would make. Nothing is queued or stored."""
        ours, lacking = self._ours(view, service), self._table_proofs.lacking(table, view)
        return self._decide(table, service, view, active, ours, lacking=lacking, on_request=True, rewrite=rewrite)

    def ask_for_all(
        self, table: Table, service: Service, view: TableView, active: Run | None, *, by: str
    ) -> Run | Blocked | NotDue | WouldRun | DoesNotApply:
        """Queue the first run of a rewrite of all files that the table has now.

        If a run of the service is active, that run is returned, and the rewrite begins after it.
        """
        self._look_at(table, view)
        mark = view.rewrites_all.get(service)
        if mark is None:
            return Blocked(
                code="unsupported_table",
                reason=f"the {service} of a table of format {table.format} cannot rewrite all files",
                remedy="ask for the run without rewrite_all",
            )
        if isinstance(mark, Blocker):
            return Blocked(code=mark.code, reason=mark.reason, remedy=mark.remedy)
        row = self._rewrites.asked(table, service, view, mark, by=by)
        if active is not None:
            self._rewrites.begin(row)
            return active
        decision = self.would(table, service, view, None, rewrite=row)
        if not isinstance(decision, Due):
            return decision
        self._rewrites.begin(row)  # stored before its first run, so that the request goes on after a restart
        try:
            return self._queue(table, service, view, decision, by=by, rewrite=row)
        except TemporaryError as error:
            raise UnknownError(f"the first run of the rewrite of {table.id} could not be stored: {error}") from error

    def unreadable(self, table: Table, reason: str) -> None:
        """Note that nothing can be decided on a table. `keep` stores it."""
        self._folders.missed(table.id)
        self._planned.pop(table.id, None)
        self._remember(table, dict.fromkeys(table.policies, not_observed(reason)))

    def forget(self, table: TableId) -> None:
        """Forget what was decided on a table, and the plans that were left there. Another replica may continue them."""
        self._news = [news for news in self._news if news.table.id != table]
        self._considered.pop(table, None)
        self._decisions.pop(table, None)
        self._before.pop(table, None)
        self._planned.pop(table, None)
        self._left.forget(table)
        self._proofs.forget(table)
        self._completed.forget(table)
        self._foreign_services.forget(table)
        self._kept_by_others.forget(table)

    def decisions(self, table: TableId) -> Mapping[Service, Decision]:
        """Return the last decisions on a table."""
        return self._decisions.get(table, {})

    def planned(self, table: TableId) -> Mapping[Service, Decision] | None:
        """Return the decisions in the mode `plan` on a table that is only observed. Any thread may call it."""
        return self._planned.get(table)

    def would_run(self, table: TableId) -> Mapping[Service, WouldRun]:
        """Return the services that would run if the mode of the table let them, also on a table that is only observed.
        Any thread may call it.
        """
        decisions = self._planned.get(table) or self._decisions.get(table, {})
        return {service: decision for service, decision in decisions.items() if isinstance(decision, WouldRun)}

    def again_at(self, table: TableId) -> datetime | None:
        """Return when time alone could change a decision on the table."""
        return next_decision_at([*self.decisions(table).values(), *self._planned.get(table, {}).values()])

    def _look_at(self, table: Table, view: TableView) -> None:
        """Learn what an observation shows of the writers, and of other programs. Raises TemporaryError."""
        self._folders.seen(table, view)
        self._proofs.seen(table, view)
        self._writer_signs.seen(table, view)
        self._foreign_services.seen(table, view)
        self._kept_by_others.seen(table, view)

    def _ours(self, view: TableView, service: Service) -> frozenset[str]:
        """Return the instants of pending plans that runs of ours made or took up, as far as the store remembers."""
        pending = view.timeline.pending(service)
        if not pending:  # the author matters only for pending plans
            return frozenset()
        signed = self._store.instants(identity=str(view.identity), service=service)
        return signed | {plan.time for plan in pending if plan.author is not None}

    def _decide(
        self,
        table: Table,
        service: Service,
        view: TableView,
        active: Run | None,
        ours: frozenset[str],
        *,
        lacking: str | None,
        on_request: bool = False,
        rewrite: RewriteRow | None = None,
        mode: Mode | None = None,
    ) -> Decision:
        if active is None and table.id in self._tables.held:
            return NotDue(
                code="new_settings_wait", reason="the new settings of the table wait until its runs have ended"
            )
        rewrite = rewrite or self._rewrites.of(table, service, view)
        return decide(
            service=service,
            view=view,
            policy=table.policies[service],
            service_state=replace(
                self._service_states.of(
                    table,
                    service,
                    active=None if active is None else active.id,
                    ours=ours,
                    approval=self._approvals.waiting(table, service, view),
                    shared=self._folders.blocked(table),
                    unproved=self._proofs.blocked(table.id),
                    rewrite_all=None if rewrite is None else in_words(rewrite),
                    mode=mode or table.mode,
                ),
                approved=self._approvals.is_due(table, service, view),
                lacking=lacking,
            ),
            now=self._clock.now(),
            asked=on_request,
        )

    def _queue(
        self,
        table: Table,
        service: Service,
        view: TableView,
        due: Due,
        *,
        by: str,
        rewrite: RewriteRow | None = None,
    ) -> Run:
        rewrite = rewrite or self._rewrites.of(table, service, view)
        run = self._active_runs.request(
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
                rewrite_all=None if rewrite is None else rewrite.mark,
            )
        )
        self._left.taken_up(run)
        self._completed.begun(run.table, run.service)
        self._listener.requested(run)
        return run

    def _remember(self, table: Table, decisions: Mapping[Service, Decision]) -> None:
        earlier = self._decisions.get(table.id)
        if earlier is None:
            self.recall([table])
        before = self._before.pop(table.id) if earlier is None else earlier
        news = {service: decision for service, decision in decisions.items() if before.get(service) != decision}
        self._decisions[table.id] = decisions
        if news:
            now = self._clock.now()
            self._news.append(_News(table=table, decisions=news, before=before, earlier=earlier, at=now))

    def _tell(
        self, table: Table, service: Service, before: Decision | None, decision: Decision, *, first: bool
    ) -> None:
        """Report a decision. The first one after a start counts as changed only if people would read something else."""
        if first and before is not None and as_read(before) == as_read(decision):
            return
        self._listener.decided(table, service, decision)
        if isinstance(before, Blocked) and not isinstance(decision, Blocked):
            self._listener.unblocked(table, service, decision)
