"""What HTTP and metrics ask of the daemon. Every method returns at once and may be called from any thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from lakewarden.executors.contract import Room
from lakewarden.planners.lock_proof import Evidence
from lakewarden.planners.model.decision import Blocked, Decision, NotDue
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.hooks.hints import Hint
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.backoff import StepsBack
from lakewarden.service.state.barriers import Held


@dataclass(frozen=True, kw_only=True, slots=True)
class TableStatus:
    """A registered table as the daemon sees it now.

    `view` is the last observation: None before the first one, and where another replica attends the table.
    `looked_ago` is the time since the last look that was tried, `trouble` why that look brought nothing, `paused` the
    reason of the pause that holds the table. `attended_by` is the replica that looks after it; None while nobody does.
    `claimed` is the block by a daemon with another store, `unclaimed` why nothing keeps such a daemon away.
    `lock` is what was seen of the lock that the writers are said to use; None where nothing is to be proved.
    `smaller` says of the services whose plans are made smaller for a time why they are.
    """

    table: Table
    attended_by: ReplicaId | None = None
    view: TableView | None = None
    looked_ago: timedelta | None = None
    trouble: str | None = None
    paused: str | None = None
    decisions: Mapping[Service, Decision] = field(default_factory=dict)
    active: tuple[Run, ...] = ()
    approvals: tuple[Service, ...] = ()
    writer_failures: tuple[Blamed, ...] = ()
    claimed: Blocked | None = None
    unclaimed: str | None = None
    steps_back: Mapping[Service, StepsBack] = field(default_factory=dict)
    lock: Evidence | None = None
    smaller: Mapping[Service, str] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know of the table although nothing is held back by it."""
        return (*(self.view.warnings if self.view else ()), *([self.unclaimed] if self.unclaimed else ()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attendant:
    """The replica that attends a table; `here`: this daemon, and it may act."""

    id: ReplicaId
    url: str
    here: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaStatus:
    """A daemon on the store, as this one (`here`) knows it. `tables` is how many it attends."""

    id: ReplicaId
    url: str
    alive: bool
    here: bool
    tables: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether the daemon lives (its control thread turned `turned_ago`) and whether it can do its work.

    `unready` says what is missing, one sentence each; empty when it is ready.
    """

    turned_ago: timedelta
    unready: tuple[str, ...] = ()


class ControlPlane(Protocol):
    """The daemon, as seen from outside its control thread."""

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration."""
        ...

    def table(self, table: TableId) -> TableStatus | None:
        """Return one table; None if it is not registered."""
        ...

    def decided(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision on each service of a table, as stored. Raises TemporaryError as `runs` does."""
        ...

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first. No `states` means all. Raises TemporaryError if the store is away."""
        ...

    def run(self, run: RunId) -> Run | None:
        """Return one run, if the store has it. Raises TemporaryError if the store is away."""
        ...

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that stand at a question for a permit, each with what it waits for."""
        ...

    def rooms(self) -> Mapping[str, Room]:
        """Return the slots of every pool, by the name of its `spark` profile."""
        ...

    def mark_dirty(self, hint: Hint) -> Sequence[TableId]:
        """Have the registered tables that a hint is about looked at soon, and return them."""
        ...

    def request_run(self, table: TableId, service: Service, *, by: str) -> Future[RunGiven | Blocked | NotDue]:
        """Ask for a run of a service that the registered table has a policy for: skips the trigger, never a block.

        The future raises TemporaryError or PermanentError where the table cannot be read.
        """
        ...

    def pause(self, table: TableId | None, *, reason: str) -> Future[None]:
        """Start nothing more on a table, or on all where `table` is None; what commits now may finish."""
        ...

    def resume(self, table: TableId | None) -> Future[None]:
        """End a pause. For a table, its services leave quarantine too."""
        ...

    def approve(self, table: TableId, service: Service, *, by: str) -> Future[bool]:
        """Let a deletion beyond the table's budget through, once; the answer is False where none waits."""
        ...

    def hold_cleans(self, table: TableId, *, hold: timedelta, wait: timedelta) -> Future[Held]:
        """Wait until no clean of the table is executing, for at most `wait`; then let none start for `hold`.

        The future raises TemporaryError where the wait runs out.
        """
        ...

    def release_cleans(self, table: TableId) -> Future[None]:
        """End every hold on the table's cleans."""
        ...

    def attendant(self, table: TableId) -> Attendant | None:
        """Return who attends a registered table, as far as it is known here; None where nobody does."""
        ...

    def replicas(self) -> Sequence[ReplicaStatus]:
        """Return the replicas of this store, the living and the dead, as far as they are known here."""
        ...

    def health(self) -> Health:
        """Return the daemon's health."""
        ...
