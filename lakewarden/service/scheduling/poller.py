"""The poller: the tables that this replica attends are looked at when their time comes, and decided on."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from lakewarden.planners.decide import next_look
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.events.listener import Listener
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.rules.writer_failures import Blamed, blame
from lakewarden.service.scheduling.poll_queue import PollQueue
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Look, Observations
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

BLAMED_RUNS = 200
"""A writer's failure is held against so many of the table's newest runs."""

LONGEST_TROUBLE_REST = timedelta(minutes=10)
FIRST_LOOK_WITHIN_SECONDS = 5.0

GATHER_SECONDS = 0.05
"""Tables whose time has come are asked for together, at most so often: thousands do not mean as many messages."""

LONGEST_ATTENDING_SECONDS = 0.2
"""Deciding on thousands of tables at once must not keep the control thread from runs, people and probes."""


@dataclass(slots=True)
class _Remembered:
    """What is remembered of a table between two looks."""

    dirty: bool = False
    decide_at: float | None = None
    looked_at: float | None = None
    troubles: int = 0
    trouble: str | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[Blamed, ...] = ()
    familiar: bool = False


class Poller:
    """Owns the agenda. Only the control thread changes it; what it remembers may be read from anywhere."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        watch: Observations,
        requests: Requests,
        proofs: LockProofs,
        book: ActiveRuns,
        store: Store,
        tenure: ReplicaLease,
        clock: Clock,
        listener: Listener,
        dice: random.Random,
    ) -> None:
        self._tables = tables
        self._watch = watch
        self._requests = requests
        self._proofs = proofs
        self._book = book
        self._store = store
        self._tenure = tenure
        self._clock = clock
        self._listener = listener
        self._dice = dice
        self._agenda = PollQueue()
        self._dirty: set[TableId] = set()
        self._soon = False
        self._gathers_until = float("-inf")
        self._answered: dict[TableId, Look | LakewardenError] = {}
        self._remembered: dict[TableId, _Remembered] = {}

    def take_on(self, tables: Collection[TableId]) -> None:
        """Attend tables: their first looks are soon, and spread over each cadence."""
        now = self._clock.monotonic()
        for table in tables:
            self._remembered[table] = _Remembered()
            within = min(self._tables[table].poll.total_seconds(), FIRST_LOOK_WITHIN_SECONDS)
            self._agenda.put(table, now + self._dice.uniform(0, within))
        self._soon = True

    def let_go(self, tables: Collection[TableId]) -> None:
        """Attend tables no longer, and forget what was seen of them: it will not have stayed true."""
        for table in tables:
            self._remembered.pop(table, None)
            self._agenda.drop(table)
            self._dirty.discard(table)
            self._answered.pop(table, None)
            self._watch.forget(table)
            self._requests.forget(table)

    def looked(self, table: TableId) -> tuple[float | None, str | None]:
        """Return when (in monotonic seconds) a table was last looked at, and what went wrong then, if anything."""
        remembered = self._remembered.get(table, _Remembered())
        return remembered.looked_at, remembered.trouble

    def writer_failures(self, table: TableId) -> tuple[Blamed, ...]:
        """Return the failures of a table's writers that its timeline still tells of."""
        return self._remembered.get(table, _Remembered()).failures

    def look_soon(self, table: TableId, *, anew: bool = False) -> None:
        """Look at a table at the next turn, if it is attended; `anew`: read it, whatever its token says."""
        if table in self._remembered:
            self._agenda.put(table, self._clock.monotonic())
            self._soon = True
            if anew:
                self._dirty.add(table)

    def decide_soon(self, table: TableId) -> None:
        """Decide on a table at the next turn, whether it has changed or not, if it is attended."""
        if table in self._remembered:
            self._remembered[table].decide_at = self._clock.monotonic()
            self.look_soon(table)

    def next_at(self) -> float | None:
        """Return when, in monotonic seconds, there may be something to do next."""
        if self._answered:
            return self._clock.monotonic()
        next_at = self._agenda.next_at()
        return next_at if next_at is None or self._soon else max(next_at, self._gathers_until)

    def attend(self, now: float) -> None:
        """Have every table looked at whose time has come, and decide on those that have been, as long as this replica
        may act. What takes too long for one turn is left for the next one.
        """
        if not self._tenure.holds():
            return
        self._watch.look(list(self._due(now)))
        self._answered.update(self._watch.answered())
        until = self._clock.monotonic() + LONGEST_ATTENDING_SECONDS
        while self._answered and self._tenure.holds():
            table = next(iter(self._answered))
            self._attend(self._tables[table], self._answered.pop(table), now)
            if self._clock.monotonic() > until:
                return

    def _due(self, now: float) -> Iterator[tuple[Table, bool]]:
        """Yield the tables whose time has come, and whether they are to be read whatever their tokens say."""
        if not self._soon and now < self._gathers_until:
            return
        self._soon, self._gathers_until = False, now + GATHER_SECONDS
        while (due := self._agenda.pop(now)) is not None:
            dirty = due in self._dirty
            self._dirty.discard(due)
            self._remembered[due].dirty |= dirty
            yield self._tables[due], dirty

    def _attend(self, table: Table, brought: Look | LakewardenError, now: float) -> None:
        """Decide on a table where its look can bring something new, and make the next appointment."""
        remembered = self._remembered[table.id]
        remembered.looked_at = now
        try:
            if isinstance(brought, LakewardenError):
                raise brought
            ripe = remembered.decide_at is not None and remembered.decide_at <= now
            if remembered.dirty or brought.news or remembered.troubles or ripe:
                remembered.dirty = False
                self._decide(table, brought.observation.view, remembered, now)
            remembered.troubles = 0
            remembered.trouble = None
        except LakewardenError as trouble:
            self._rest(table, remembered, now, trouble)
            return
        except Exception as bug:
            log.exception("table_trouble", table=table.id)
            self._rest(table, remembered, now, UnknownError(f"unexpected {type(bug).__name__}: {bug}"))
            return
        closely = self._proofs.looks_again_within(table.id)
        at = now + (closely or table.poll).total_seconds() * self._dice.uniform(0.9, 1.1)
        self._agenda.put(table.id, at if remembered.decide_at is None else min(at, remembered.decide_at))

    def _decide(self, table: Table, view: TableView, remembered: _Remembered, now: float) -> None:
        for warning in set(view.warnings) - set(remembered.warnings):
            self._listener.warned(table, warning)
        remembered.warnings = view.warnings
        self._note_failures(table, view, remembered)
        for run in self._requests.consider(table, view, self._book.of(table.id)):
            self._book.take_in(run)
        again_at = next_look(self._requests.decisions(table.id))
        # A clock that has just run out is looked at once more a moment later, not at once.
        remembered.decide_at = (
            None if again_at is None else now + max(0.2, (again_at - self._clock.now()).total_seconds())
        )

    def _note_failures(self, table: Table, view: TableView, remembered: _Remembered) -> None:
        """Remember the failures of a table's writers with what was known of each when it was new, then tell of the
        new ones: who hears of one finds it where the table is shown.

        What the first whole look finds happened before this replica attended the table: it is shown, and not told, or
        each restart would tell what is a year old again.
        """
        by_instant = {blamed.failure.instant: blamed for blamed in remembered.failures}
        news = [failure for failure in view.writers.failures if failure.instant not in by_instant]
        if news:
            runs = self._store.runs(table=table.id, limit=BLAMED_RUNS)
            shown = {instant.time for instant in view.timeline.instants}
            by_instant |= {failure.instant: blame(failure, runs, shown=shown) for failure in news}
        remembered.failures = tuple(by_instant[failure.instant] for failure in view.writers.failures)
        for failure in news if remembered.familiar else ():
            self._listener.writer_failed(table, by_instant[failure.instant])
        remembered.familiar = remembered.familiar or not view.faults

    def _rest(self, table: Table, remembered: _Remembered, now: float, trouble: LakewardenError) -> None:
        """Leave a table that cannot be observed alone for a while; its trouble is its own."""
        remembered.troubles += 1
        remembered.trouble = str(trouble)
        rest = min(table.poll * 2 ** min(remembered.troubles - 1, 10), LONGEST_TROUBLE_REST)
        self._agenda.put(table.id, now + rest.total_seconds() * self._dice.uniform(0.9, 1.1))
        try:
            self._requests.unreadable(table, str(trouble))
        except TemporaryError as store:
            log.warning("store_trouble", error=str(store))
        if remembered.troubles == 1:
            self._listener.trouble(table, str(trouble))
