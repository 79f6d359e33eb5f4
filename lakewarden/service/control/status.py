"""The daemon as HTTP and metrics see it: frozen values to read, letters to the control thread to act."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta

from lakewarden.executors.contract import Pool, Room
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.commands import Approved, BarrierLifted, CommandQueue, PauseAsked, RunAsked, RunGiven
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.plane import Attendant, Health, ReplicaStatus, TableStatus
from lakewarden.service.hooks.hints import Hint
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.rules.shutdown import Shutdown
from lakewarden.service.scheduling.hook_rate import PacedHooks
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import BarrierAsked, Held
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.store.port import Store


class Status:
    """Implements `http.port.ControlPlane`. Every method may be called from any thread and returns at once."""

    def __init__(
        self,
        *,
        tables: TableRegistry,
        daemon: ControlLoop,
        tenure: ReplicaLease,
        membership: Membership,
        shares: TableShares,
        shutdown: Shutdown,
        attention: Poller,
        watch: Observations,
        requests: Requests,
        book: ActiveRuns,
        questions: PermitQueue,
        standings: Backoffs,
        approvals: Approvals,
        claims: Claims,
        proofs: LockProofs,
        store: Store,
        pools: Mapping[str, Pool],
        inbox: CommandQueue,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._daemon = daemon
        self._tenure = tenure
        self._membership = membership
        self._shares = shares
        self._shutdown = shutdown
        self._attention = attention
        self._watch = watch
        self._requests = requests
        self._book = book
        self._questions = questions
        self._standings = standings
        self._approvals = approvals
        self._claims = claims
        self._proofs = proofs
        self._store = store
        self._pools = pools
        self._inbox = inbox
        self._hooks = PacedHooks(inbox.mark_dirty, clock=clock)
        self._clock = clock

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration; those that were found come last."""
        return [self._status(table) for table in self._tables.values()]

    def table(self, table: TableId) -> TableStatus | None:
        """Return one table; None if it is not registered."""
        found = self._tables.get(table)
        return None if found is None else self._status(found)

    def decided(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision on each service of a table, as stored."""
        return self._store.decisions(table)

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first."""
        return self._store.runs(table=table, service=service, states=states, limit=limit)

    def run(self, run: RunId) -> Run | None:
        """Return one run, if the store has it."""
        return self._store.run(run)

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that stand at a question, each with what it waits for."""
        return self._questions.waiting()

    def rooms(self) -> Mapping[str, Room]:
        """Return the slots of every pool."""
        return {name: pool.room() for name, pool in self._pools.items()}

    def mark_dirty(self, hint: Hint) -> Sequence[TableId]:
        """Have the tables that a hint is about looked at soon, by whoever attends them."""
        meant = self._tables.meant_by(hint)
        self._hooks.heard(meant)
        return meant

    def request_run(self, table: TableId, service: Service, *, by: str) -> Future[RunGiven | Blocked | NotDue]:
        """Ask for a run of a service that the table has a policy for."""
        letter = RunAsked(table=table, service=service, by=by)
        self._inbox.put(letter)
        return letter.answer

    def pause(self, table: TableId | None, *, reason: str) -> Future[None]:
        """Start nothing more on a table, or on all."""
        return self._set_pause(table, reason)

    def resume(self, table: TableId | None) -> Future[None]:
        """End a pause."""
        return self._set_pause(table, None)

    def approve(self, table: TableId, service: Service, *, by: str) -> Future[bool]:
        """Let a deletion through that waits for it."""
        letter = Approved(table=table, service=service, by=by)
        self._inbox.put(letter)
        return letter.answer

    def hold_cleans(self, table: TableId, *, hold: timedelta, wait: timedelta) -> Future[Held]:
        """Wait until no clean is executing, then hold new ones back."""
        letter = BarrierAsked(table=table, hold=hold, wait=wait)
        self._inbox.put(letter)
        return letter.answer

    def release_cleans(self, table: TableId) -> Future[None]:
        """End the holds."""
        letter = BarrierLifted(table=table)
        self._inbox.put(letter)
        return letter.answer

    def health(self) -> Health:
        """Return the daemon's health. It is ready while it may act and every pool has a slot to offer."""
        turned_ago = timedelta(seconds=max(0.0, self._clock.monotonic() - self._daemon.last_turn))
        return Health(turned_ago=turned_ago, unready=tuple(self._unready()))

    def _unready(self) -> Iterator[str]:
        if self._shutdown.is_asked():
            yield "the daemon is stopping"
        if not self._tenure.holds():
            yield "the daemon's lease is lost: it may act on no table until the store gives it a new one"
        if self._membership.trouble is not None:
            yield f"the store does not answer: {self._membership.trouble}"
        for name, room in self.rooms().items():
            if not room.slots:
                yield f"no session worker of spark profile {name} is up"

    def attendant(self, table: TableId) -> Attendant | None:
        """Return who attends a registered table."""
        found = self._shares.attendant(table)
        return None if found is None else Attendant(id=found.id, url=found.url, here=self._shares.attends(table))

    def replicas(self) -> Sequence[ReplicaStatus]:
        """Return the replicas of this store, the living and the dead."""
        return [
            ReplicaStatus(
                id=replica.id,
                url=replica.url,
                alive=replica.alive,
                here=replica.id == self._tenure.replica,
                tables=self._shares.count(replica.id),
            )
            for replica in self._shares.replicas
        ]

    def _set_pause(self, table: TableId | None, reason: str | None) -> Future[None]:
        letter = PauseAsked(table=table, reason=reason)
        self._inbox.put(letter)
        return letter.answer

    def _status(self, table: Table) -> TableStatus:
        looked_at, trouble = self._attention.looked(table.id)
        attendant = self._shares.attendant(table.id)
        observation = self._watch.kept(table.id)
        view = None if observation is None else observation.view
        return TableStatus(
            table=table,
            view=view,
            looked_ago=None if looked_at is None else timedelta(seconds=self._clock.monotonic() - looked_at),
            trouble=trouble,
            paused=self._standings.paused(table.id),
            attended_by=None if attendant is None else attendant.id,
            writer_failures=self._attention.writer_failures(table.id),
            decisions=self._requests.decisions(table.id),
            approvals=() if view is None else self._approvals.open(table, view),
            active=tuple(self._book.of(table.id).values()),
            claimed=self._claims.blocked(table.id),
            unclaimed=self._claims.warning(table.id),
            steps_back=self._standings.steps_back(table.id),
            lock=self._proofs.evidence(table.id),
            smaller=self._standings.plans_smaller(table.id),
        )
