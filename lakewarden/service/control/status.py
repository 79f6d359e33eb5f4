"""The daemon for HTTP and metrics: frozen values to read, and messages to the control thread to act."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta

from lakewarden.executors.contract import Capacity
from lakewarden.executors.pool.run_logs import LogLine
from lakewarden.executors.progress import RunProgress
from lakewarden.planners.hooks import At, Hint
from lakewarden.planners.model.decision import Blocked, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.proof import Proof
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import HearsOfFolders
from lakewarden.service.control.commands import (
    Approved,
    BarrierLifted,
    CommandQueue,
    DryRun,
    DryRunAsked,
    PauseAsked,
    QuarantineAsked,
    RewriteEnded,
    RunAsked,
    RunCancelled,
    RunGiven,
)
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.plane import Health, ReplicaStatus, TableOwner, TableStatus
from lakewarden.service.control.table_statuses import TableStatuses
from lakewarden.service.model.access import LOCAL, Caller
from lakewarden.service.model.acts import Act, ActKind
from lakewarden.service.model.found import Discoveries
from lakewarden.service.model.rows import ApprovalRow, DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.rules.shutdown import Shutdown
from lakewarden.service.scheduling.hook_rate import PacedHooks
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.barriers import BarrierAsked, BarrierGranted, BarrierHold
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.resources import Resources
from lakewarden.service.store.history import HistoryStore


class Status:
    """Implements `http.port.ControlPlane`. Any thread may call every method, and every method returns at once."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        ownership: Ownership,
        scheduling: SchedulingParts,
        daemon: ControlLoop,
        membership: Membership,
        commands: CommandQueue,
        shutdown: Shutdown,
        discovery: Discoveries,
    ) -> None:
        self.discovery = discovery
        self._tables = state.tables
        self._statuses = TableStatuses(state=state, ownership=ownership, scheduling=scheduling, clock=resources.clock)
        self._daemon = daemon
        self._replica_lease = ownership.replica_lease
        self._membership = membership
        self._shares = ownership.shares
        self._shutdown = shutdown
        self._permit_queue = scheduling.permit_queue
        self._barriers = state.barriers
        self._table_proofs = scheduling.table_proofs
        self._writer_signs = state.writer_signs
        self._store = resources.store
        self._pools = resources.pools
        self._run_logs = resources.run_logs
        self.archives = resources.archives
        self._commands = commands
        self._hooks = PacedHooks(commands.hook_arrived, clock=resources.clock)
        self._clock = resources.clock
        self._formats = resources.formats

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration. Discovered tables come last."""
        return self._statuses.all()

    def table(self, table: TableId) -> TableStatus | None:
        """Return one table, or None if it is not registered."""
        found = self._tables.get(table)
        return None if found is None else self._statuses.of(found)

    def polled_ago(self, table: TableId) -> timedelta | None:
        """Return the time since the last attempt to observe a table."""
        return self._statuses.polled_ago(table)

    def proof(self, table: TableStatus) -> Sequence[Proof]:
        """Return the result of each check of a table."""
        return self._table_proofs.of(table.table, table.view, table.failure)

    def decided(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision on each service of a table, as stored."""
        return self._store.decisions(table)

    def history(self) -> HistoryStore:
        """Return the history in the store."""
        return self._store

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        before: RunId | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first."""
        return self._store.runs(table=table, service=service, states=states, before=before, limit=limit)

    def run(self, run: RunId) -> Run | None:
        """Return one run, if the store has it."""
        return self._store.run(run)

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that wait for a permit, each with what it waits for."""
        return self._permit_queue.waiting()

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return what the runs in the workers of this daemon do."""
        return {run: done for pool in self._pools.values() for run, done in pool.progress().items()}

    def run_log(self, run: RunId, *, after: int = 0, limit: int) -> Sequence[LogLine] | None:
        """Return lines of the log of a run."""
        return None if self._run_logs is None else self._run_logs.lines(run, after=after, limit=limit)

    def end_of_run_log(self, run: RunId, *, limit: int) -> Sequence[LogLine] | None:
        """Return the last lines of the log of a run."""
        return None if self._run_logs is None else self._run_logs.last(run, limit=limit)

    def capacities(self) -> Mapping[str, Capacity]:
        """Return the slots of every pool."""
        return {name: pool.capacity() for name, pool in self._pools.items()}

    def mark_dirty(self, hint: Hint, *, among: Callable[[TableId], bool] = lambda _table: True) -> Sequence[TableId]:
        """Have the tables that a hint is about observed soon, by their owners."""
        meant = tuple(table for table in self._tables.meant_by(hint) if among(table))
        for known in filter(None, map(self._tables.get, meant)):
            table_format = self._formats[known.format]
            if isinstance(hint, At) and isinstance(table_format, HearsOfFolders):
                table_format.heard(known.location, hint.folder)
        self._hooks.heard(meant)
        for table in meant:
            self._writer_signs.heard(table)
        return meant

    def request_run(
        self,
        table: TableId,
        service: Service,
        *,
        by: str,
        caller: Caller = LOCAL,
        rewrite_all: bool = False,
        dry_run: bool = False,
    ) -> Future[RunGiven | Blocked | NotDue | WouldRun | DoesNotApply]:
        """Request a run of a service that has a policy on the table."""
        message = RunAsked(table=table, service=service, by=by, caller=caller, rewrite_all=rewrite_all, dry_run=dry_run)
        self._commands.put(message)
        return message.answer

    def dry_run(self, table: TableId, service: Service) -> Future[DryRun]:
        """Return what a request for a run would meet now."""
        message = DryRunAsked(table=table, service=service)
        self._commands.put(message)
        return message.answer

    def end_rewrite(self, table: TableId, service: Service, *, caller: Caller = LOCAL) -> Future[bool]:
        """Withdraw a rewrite of all files."""
        message = RewriteEnded(table=table, service=service, caller=caller)
        self._commands.put(message)
        return message.answer

    def pause(self, table: TableId | None, *, reason: str, caller: Caller = LOCAL) -> Future[None]:
        """Start nothing more on a table, or on all."""
        return self._set_pause(table, reason, caller)

    def resume(self, table: TableId | None, *, caller: Caller = LOCAL) -> Future[None]:
        """End a pause."""
        return self._set_pause(table, None, caller)

    def approve(self, table: TableId, service: Service, *, by: str, caller: Caller = LOCAL) -> Future[bool]:
        """Approve a deletion that waits for it."""
        message = Approved(table=table, service=service, by=by, caller=caller)
        self._commands.put(message)
        return message.answer

    def hold_cleans(
        self, table: TableId, *, hold: timedelta, wait: timedelta, caller: Caller = LOCAL
    ) -> Future[BarrierGranted]:
        """Wait until no clean is executing, then delay new cleans."""
        message = BarrierAsked(table=table, caller=caller, hold=hold, wait=wait)
        self._commands.put(message)
        return message.answer

    def holds(self, table: TableId) -> Sequence[BarrierHold]:
        """Return the holds."""
        return self._barriers.holds(table)

    def release_cleans(self, table: TableId, *, hold: str | None = None, caller: Caller = LOCAL) -> Future[int]:
        """End one hold, or those that the caller may end."""
        message = BarrierLifted(table=table, hold=hold, caller=caller)
        self._commands.put(message)
        return message.answer

    def cancel(self, table: TableId, run: RunId, *, caller: Caller = LOCAL) -> Future[Run | None]:
        """Stop an active run."""
        message = RunCancelled(table=table, run=run, caller=caller)
        self._commands.put(message)
        return message.answer

    def quarantine(
        self, table: TableId, service: Service, *, reason: str | None, caller: Caller = LOCAL
    ) -> Future[bool]:
        """Put a service in quarantine, or release it."""
        message = QuarantineAsked(table=table, service=service, reason=reason, caller=caller)
        self._commands.put(message)
        return message.answer

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return the deletions that wait for an approval, and those that have one."""
        return self._store.approvals()

    def drain(self, *, caller: Caller = LOCAL) -> bool:
        """End this daemon, if it is not stopping already."""
        if self._shutdown.is_asked():
            return False
        self.note(ActKind.DRAINED, caller=caller, after=f"replica {self._replica_lease.replica}")
        self._daemon.stop()
        return True

    def note(self, kind: ActKind, *, caller: Caller = LOCAL, after: str | None = None) -> None:
        """Write an act that the control thread does not carry out."""
        self._store.note_act(Act(at=self._clock.now(), who=caller.name, key=caller.key, kind=kind, after=after))

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return the acts of persons and programs."""
        return self._store.acts(table=table, before=before, limit=limit)

    def health(self) -> Health:
        """Return the health of the daemon. It is ready while it may act. Without workers it still takes hooks."""
        pools = self.capacities()
        down = [name for name, pool in pools.items() if not pool.slots and not pool.resting]
        return Health(
            turned_ago=timedelta(seconds=max(0.0, self._clock.monotonic() - self._daemon.last_turn)),
            unready=tuple(self._unready()),
            notes=(
                *(f"no session worker of spark profile {name} is up" for name in down),
                *(f"spark profile {name}: {pool.held}" for name, pool in pools.items() if pool.held is not None),
            ),
            store_away=self._membership.store_error or self._store.write_error,
        )

    def _unready(self) -> Iterator[str]:
        if self._shutdown.is_asked():
            yield "the daemon is stopping"
        if not self._replica_lease.holds():
            yield "the daemon's lease is lost: it may act on no table until the store gives it a new one"
        if self._membership.store_error is not None:
            yield f"the store does not answer: {self._membership.store_error}"
        elif self._store.write_error is not None:
            yield f"the store cannot be written: {self._store.write_error}"

    def owner(self, table: TableId) -> TableOwner | None:
        """Return the owner of a registered table."""
        found = self._shares.owner(table)
        return None if found is None else TableOwner(id=found.id, url=found.url, here=self._shares.owns(table))

    def replicas(self) -> Sequence[ReplicaStatus]:
        """Return the replicas of this store, also the dead ones."""
        return [
            ReplicaStatus(
                id=replica.id,
                url=replica.url,
                alive=replica.alive,
                here=replica.id == self._replica_lease.replica,
                tables=self._shares.count(replica.id),
            )
            for replica in self._shares.replicas
        ]

    def _set_pause(self, table: TableId | None, reason: str | None, caller: Caller) -> Future[None]:
        message = PauseAsked(table=table, reason=reason, caller=caller)
        self._commands.put(message)
        return message.answer
