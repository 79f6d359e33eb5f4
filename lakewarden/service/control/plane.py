"""The daemon, for HTTP and metrics: what it knows, as frozen values, and the acts that it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.executors.contract import Capacity, RunProgress
from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.hooks import At, Hint
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.proof import Proof
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import HearsOfFolders
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.control.commands import Commands
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.table_statuses import TableStatus, TableStatuses
from lakewarden.service.model.access import LOCAL, Act, ActKind, Caller
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import ApprovalRow, DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.rules.shutdown import Shutdown
from lakewarden.service.scheduling.hook_rate import PacedHooks
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.barriers import BarrierHold
from lakewarden.service.state.daemon_state import DaemonState, Resources
from lakewarden.service.store.sql.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class TableOwner:
    """The replica that owns a table. `here`: it is this daemon, and it may act."""

    id: ReplicaId
    url: str
    here: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaStatus:
    """A daemon on the store, as this one (`here`) knows it. `tables` is how many it owns."""

    id: ReplicaId
    url: str
    alive: bool
    here: bool
    tables: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether the daemon lives (its control thread turned `turned_ago`), and whether it is ready.

    `unready` says what is missing, one sentence each. It is empty if the daemon is ready. `notes` says what is missing
    although the daemon is ready. `store_away` is why the store does not answer.
    """

    turned_ago: timedelta
    unready: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    store_away: str | None = None


class ControlPlane:
    """The daemon for callers outside its control thread. Any thread may call every method, and every method returns at
    once.
    """

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        ownership: Ownership,
        scheduling: SchedulingParts,
        daemon: ControlLoop,
        membership: Membership,
        commands: Commands,
        queue: CommandQueue,
        shutdown: Shutdown,
        discovery: Discovery,
    ) -> None:
        self.discovery = discovery
        self.commands = commands
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
        self._hooks = PacedHooks(queue.hook_arrived, clock=resources.clock)
        self._clock = resources.clock
        self._formats = resources.formats

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration.

        A table that has not changed is the same object as before.
        """
        return self._statuses.all()

    def table(self, table: TableId) -> TableStatus | None:
        """Return one table, or None if it is not registered."""
        registered = self._tables.get(table)
        return None if registered is None else self._statuses.of(registered)

    def polled_ago(self, table: TableId) -> timedelta | None:
        """Return the time since the last attempt to observe a table, or None. It is no part of the status, because it
        differs at each moment.
        """
        return self._statuses.polled_ago(table)

    def proof(self, table: TableStatus) -> Sequence[Proof]:
        """Return the result of each check of a table: what is proved, what is not proved yet, and what is wrong."""
        return self._table_proofs.of(table.table, table.view, table.failure)

    def decided(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision on each service of a table, as stored. Raises TemporaryError as `runs` does."""
        return self._store.decisions(table)

    def history(self) -> Store:
        """Return the history in the store. It raises TemporaryError as `runs` does."""
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
        """Return runs, the newest first. No `states` means all. `before` leaves out that run, and all newer ones.

        Raises TemporaryError if the store does not answer.
        """
        return self._store.runs(table=table, service=service, states=states, before=before, limit=limit)

    def run(self, run: RunId) -> Run | None:
        """Return the run with this id, or with the only id that begins so. None if the store has none, or several.
        Raises TemporaryError if the store does not answer.
        """
        return self._store.run(run) or (self._store.run_beginning(run) if run else None)

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that wait for a permit, each with what it waits for."""
        return self._permit_queue.waiting()

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return what the runs in the workers of this daemon do, as the workers last said it."""
        return {run: done for pool in self._pools.values() for run, done in pool.progress().items()}

    def run_log(self, run: RunId, *, after: int = 0, limit: int) -> Sequence[LogLine] | None:
        """Return lines of the log of a run with numbers above `after`. None if this daemon has no log of it."""
        return None if self._run_logs is None else self._run_logs.lines(run, after=after, limit=limit)

    def end_of_run_log(self, run: RunId, *, limit: int) -> Sequence[LogLine] | None:
        """Return the last lines of the log of a run. None if this daemon has no log of it. A long log costs no more."""
        return None if self._run_logs is None else self._run_logs.last(run, limit=limit)

    def capacities(self) -> Mapping[str, Capacity]:
        """Return the slots of every pool, by the name of its `spark` profile."""
        return {name: pool.capacity() for name, pool in self._pools.items()}

    def mark_dirty(self, hint: Hint, *, among: Callable[[TableId], bool] = lambda _table: True) -> Sequence[TableId]:
        """Have the registered tables that a hint is about observed soon, and return them.

        Only tables `among` which the sender has its role are meant.
        """
        meant = tuple(table for table in self._tables.meant_by(hint) if among(table))
        for registered in filter(None, map(self._tables.get, meant)):
            table_format = self._formats[registered.format]
            if isinstance(hint, At) and isinstance(table_format, HearsOfFolders):
                table_format.heard(registered.location, hint.folder)
        self._hooks.heard(meant)
        for table in meant:
            self._writer_signs.heard(table)
        return meant

    def holds(self, table: TableId) -> Sequence[BarrierHold]:
        """Return the holds on the cleans of a table that this daemon owns."""
        return self._barriers.holds(table)

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return the deletions beyond a budget that wait, and those that were approved. Raises TemporaryError as `runs`
        does.
        """
        return self._store.rows(ApprovalRow)

    def drain(self, *, caller: Caller = LOCAL) -> bool:
        """End this daemon: it starts nothing more, and active runs may go on for `daemon.drain`.

        False if it is stopping already. Raises TemporaryError if the store cannot note it.
        """
        if self._shutdown.is_asked():
            return False
        self.note(ActKind.DRAINED, caller=caller, after=f"replica {self._replica_lease.replica}")
        self._daemon.stop()
        return True

    def note(self, kind: ActKind, *, caller: Caller = LOCAL, after: str | None = None) -> None:
        """Write an act that the control thread does not carry out into the audit log, before it takes effect.

        Raises TemporaryError if the store cannot note it.
        """
        self._store.note_act(Act(at=self._clock.now(), who=caller.name, key=caller.key, kind=kind, after=after))

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return the acts of persons and programs, as the store has them. Raises TemporaryError as `runs` does."""
        return self._store.acts(table=table, before=before, limit=limit)

    def health(self) -> Health:
        """Return the health of the daemon."""
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
            yield "the daemon has lost its lease: it acts on no table until the store grants a new one"
        if self._membership.store_error is not None:
            yield f"the store does not answer: {self._membership.store_error}"
        elif self._store.write_error is not None:
            yield f"the store cannot be written: {self._store.write_error}"

    def owner(self, table: TableId) -> TableOwner | None:
        """Return the owner of a registered table, as far as it is known here, or None."""
        owner = self._shares.owner(table)
        return None if owner is None else TableOwner(id=owner.id, url=owner.url, here=self._shares.owns(table))

    def replicas(self) -> Sequence[ReplicaStatus]:
        """Return the replicas of this store, also the dead ones, as far as they are known here."""
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
