"""What HTTP and metrics ask the daemon. Every method returns at once, and any thread may call it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from lakewarden.executors.contract import Capacity
from lakewarden.executors.pool.run_logs import LogLine
from lakewarden.executors.progress import RunProgress
from lakewarden.planners.hooks import Hint
from lakewarden.planners.lock_proof import Evidence
from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.instant import Instant, RunId, Service
from lakewarden.planners.model.proof import Proof
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.control.commands import DryRun, RunGiven
from lakewarden.service.model.access import LOCAL, Caller
from lakewarden.service.model.acts import Act, ActKind
from lakewarden.service.model.found import Discoveries
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import ApprovalRow, DecisionRow, RewriteRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.proof import foreign_warning
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.barriers import BarrierGranted, BarrierHold
from lakewarden.service.state.readers.archives import ArchiveReaders
from lakewarden.service.state.service_states import Retries
from lakewarden.service.store.history import HistoryStore


@dataclass(frozen=True, kw_only=True, slots=True)
class TableStatus:
    """A registered table as the daemon sees it now.

    `view` is the last observation. It is None before the first one, and if another replica owns the table. `failure`
    is why the last attempt to observe the table failed. `polled_every` is how often it is polled now. `paused` is the
    reason of the pause of the table. `owner` is the replica that owns it, or None. `lock` is the evidence about the
    lock of the writers, or None if nothing has to be proved. `smaller` has the services with smaller plans for a
    time, and why. `rewrites` has the services with a rewrite of all files that was asked for and has not ended.
    `would_run` has the services that would run if the mode of the table let them. `foreign_services` are the services
    that other programs have completed within a day, although they have a policy here.
    """

    table: Table
    owner: ReplicaId | None = None
    view: TableView | None = None
    polled_every: timedelta | None = None
    failure: str | None = None
    paused: str | None = None
    decisions: Mapping[Service, Decision] = field(default_factory=dict)
    would_run: Mapping[Service, WouldRun] = field(default_factory=dict)
    active: tuple[Run, ...] = ()
    approvals: tuple[Service, ...] = ()
    writer_failures: tuple[Blamed, ...] = ()
    retries: Mapping[Service, Retries] = field(default_factory=dict)
    lock: Evidence | None = None
    smaller: Mapping[Service, str] = field(default_factory=dict)
    rewrites: Mapping[Service, RewriteRow] = field(default_factory=dict)
    foreign_services: tuple[Instant, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know about the table although it blocks nothing."""
        return (
            *(self.view.warnings if self.view else ()),
            *([foreign_warning(self.foreign_services)] if self.foreign_services else ()),
        )


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


class ControlPlane(Protocol):
    """The daemon, for callers outside its control thread."""

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration.

        A table that has not changed is the same object as before.
        """
        ...

    def table(self, table: TableId) -> TableStatus | None:
        """Return one table, or None if it is not registered."""
        ...

    @property
    def archives(self) -> ArchiveReaders:
        """The readers of archived timelines. Unlike the methods, a caller waits for them."""
        ...

    def polled_ago(self, table: TableId) -> timedelta | None:
        """Return the time since the last attempt to observe a table, or None. It is no part of the status, because it
        differs at each moment.
        """

    @property
    def discovery(self) -> Discoveries:
        """What this daemon has found by patterns and in catalogs."""
        ...

    def proof(self, table: TableStatus) -> Sequence[Proof]:
        """Return the result of each check of a table: what is proved, what is not proved yet, and what is wrong."""
        ...

    def decided(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision on each service of a table, as stored. Raises TemporaryError as `runs` does."""
        ...

    def history(self) -> HistoryStore:
        """Return the history in the store. It raises TemporaryError as `runs` does."""
        ...

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
        ...

    def run(self, run: RunId) -> Run | None:
        """Return one run, if the store has it. Raises TemporaryError if the store does not answer."""
        ...

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that wait for a permit, each with what it waits for."""
        ...

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return what the runs in the workers of this daemon do, as the workers last said it."""
        ...

    def run_log(self, run: RunId, *, after: int = 0, limit: int) -> Sequence[LogLine] | None:
        """Return lines of the log of a run with numbers above `after`. None if this daemon has no log of it."""
        ...

    def end_of_run_log(self, run: RunId, *, limit: int) -> Sequence[LogLine] | None:
        """Return the last lines of the log of a run. None if this daemon has no log of it. A long log costs no more."""
        ...

    def capacities(self) -> Mapping[str, Capacity]:
        """Return the slots of every pool, by the name of its `spark` profile."""
        ...

    def mark_dirty(self, hint: Hint, *, among: Callable[[TableId], bool] = lambda _table: True) -> Sequence[TableId]:
        """Have the registered tables that a hint is about observed soon, and return them.

        Only tables `among` which the sender has its role are meant.
        """
        ...

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
        """Request a run of a service that has a policy on the registered table. It skips the trigger, but no block.

        With `rewrite_all` it is the first run of a rewrite of all files that the table has now. `dry_run` asks for its
        plan alone.

        The future raises TemporaryError or PermanentError if the table cannot be read.
        """
        ...

    def dry_run(self, table: TableId, service: Service) -> Future[DryRun]:
        """Return what a request for a run would meet now. The table is looked at, and nothing changes.

        The future raises as that of `request_run`.
        """
        ...

    def end_rewrite(self, table: TableId, service: Service, *, caller: Caller = LOCAL) -> Future[bool]:
        """Withdraw a rewrite of all files. A run of it that is active may finish. The answer is False if there is
        none.
        """
        ...

    def pause(self, table: TableId | None, *, reason: str, caller: Caller = LOCAL) -> Future[None]:
        """Start nothing more on a table, or on all if `table` is None. A commit that is under way may finish."""
        ...

    def resume(self, table: TableId | None, *, caller: Caller = LOCAL) -> Future[None]:
        """End a pause. If a table is given, its services leave quarantine too."""
        ...

    def approve(self, table: TableId, service: Service, *, by: str, caller: Caller = LOCAL) -> Future[bool]:
        """Approve one deletion beyond the budget of the table. The answer is False if no deletion waits."""
        ...

    def hold_cleans(
        self, table: TableId, *, hold: timedelta, wait: timedelta, caller: Caller = LOCAL
    ) -> Future[BarrierGranted]:
        """Wait until no clean of the table is executing, at most for `wait`. Then start none for `hold`.

        The future raises TemporaryError if the wait runs out.
        """
        ...

    def holds(self, table: TableId) -> Sequence[BarrierHold]:
        """Return the holds on the cleans of a table that this daemon owns."""
        ...

    def release_cleans(self, table: TableId, *, hold: str | None = None, caller: Caller = LOCAL) -> Future[int]:
        """End a hold on the cleans of the table, or all that the caller may end: its own, and as an operator all.

        The answer is how many were ended. The future raises PermanentError if the hold belongs to another caller.
        """
        ...

    def cancel(self, table: TableId, run: RunId, *, caller: Caller = LOCAL) -> Future[Run | None]:
        """Stop an active run of a table. None if it is not active. The future raises PermanentError if the run has
        begun to commit.
        """
        ...

    def quarantine(
        self, table: TableId, service: Service, *, reason: str | None, caller: Caller = LOCAL
    ) -> Future[bool]:
        """Put a service of a table in quarantine, or release it from quarantine and backoff if `reason` is None.

        The answer is False if there was nothing to release.
        """
        ...

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return the deletions beyond a budget that wait, and those that were approved. Raises TemporaryError as `runs`
        does.
        """
        ...

    def drain(self, *, caller: Caller = LOCAL) -> bool:
        """End this daemon: it starts nothing more, and active runs may go on for `daemon.drain`.

        False if it is stopping already. Raises TemporaryError if the store cannot note it.
        """
        ...

    def note(self, kind: ActKind, *, caller: Caller = LOCAL, after: str | None = None) -> None:
        """Write an act that the control thread does not carry out into the audit log, before it takes effect.

        Raises TemporaryError if the store cannot note it.
        """
        ...

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return the acts of persons and programs, as the store has them. Raises TemporaryError as `runs` does."""
        ...

    def owner(self, table: TableId) -> TableOwner | None:
        """Return the owner of a registered table, as far as it is known here, or None."""
        ...

    def replicas(self) -> Sequence[ReplicaStatus]:
        """Return the replicas of this store, also the dead ones, as far as they are known here."""
        ...

    def health(self) -> Health:
        """Return the health of the daemon."""
        ...
