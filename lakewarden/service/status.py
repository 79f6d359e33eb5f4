"""The daemon as HTTP and metrics see it: frozen values to read, letters to the control thread to act."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta

from lakewarden.executors.contract import Pool, Room
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.approvals import Approvals
from lakewarden.service.barriers import BarrierAsked, Held
from lakewarden.service.book import Book
from lakewarden.service.daemon import Daemon
from lakewarden.service.http.port import Health, TableStatus
from lakewarden.service.inbox import Approved, BarrierLifted, Inbox, PauseAsked, RunAsked, RunGiven
from lakewarden.service.questions import Questions
from lakewarden.service.request import Requests
from lakewarden.service.standing import Standings
from lakewarden.service.store.port import DecisionRow, Run, RunState, Store
from lakewarden.service.watch import Watch


class Status:
    """Implements `http.port.ControlPlane`. Every method may be called from any thread and returns at once."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        locations: Mapping[str, TableId],
        daemon: Daemon,
        watch: Watch,
        requests: Requests,
        book: Book,
        questions: Questions,
        standings: Standings,
        approvals: Approvals,
        store: Store,
        pools: Mapping[str, Pool],
        inbox: Inbox,
        clock: Clock,
    ) -> None:
        """`locations` maps each table's canonical location to its id."""
        self._tables = tables
        self._locations = locations
        self._daemon = daemon
        self._watch = watch
        self._requests = requests
        self._book = book
        self._questions = questions
        self._standings = standings
        self._approvals = approvals
        self._store = store
        self._pools = pools
        self._inbox = inbox
        self._clock = clock

    def tables(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the configuration."""
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

    def mark_dirty(self, location: str) -> TableId | None:
        """Have the table at a canonical location looked at soon."""
        table = self._locations.get(location)
        if table is not None:
            self._inbox.mark_dirty(table)
        return table

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
        """Return the daemon's health: ready once the workers of every pool have a slot to offer."""
        turned_ago = timedelta(seconds=max(0.0, self._clock.monotonic() - self._daemon.last_turn))
        unready = [
            f"no session worker of spark profile {name} is up" for name, room in self.rooms().items() if not room.slots
        ]
        return Health(turned_ago=turned_ago, unready=tuple(unready))

    def _set_pause(self, table: TableId | None, reason: str | None) -> Future[None]:
        letter = PauseAsked(table=table, reason=reason)
        self._inbox.put(letter)
        return letter.answer

    def _status(self, table: Table) -> TableStatus:
        looked_at, trouble = self._daemon.looked(table.id)
        observation = self._watch.kept(table.id)
        view = None if observation is None else observation.view
        return TableStatus(
            table=table,
            view=view,
            looked_ago=None if looked_at is None else timedelta(seconds=self._clock.monotonic() - looked_at),
            trouble=trouble,
            paused=self._standings.paused(table.id),
            writer_failures=self._daemon.writer_failures(table.id),
            decisions=self._requests.decisions(table.id),
            approvals=() if view is None else self._approvals.open(table, view),
            active=tuple(self._book.of(table.id).values()),
        )
