"""The daemon's control thread: it owns the road from a dirty table to a settled run.

agenda -> watch -> decide and request -> dispatch -> pool -> permits -> settle -> the table is dirty again.
Every turn does all that is due and tells how long it may sleep.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors.contract import Asked, Ended, Lost, Pool, RoomChanged, Started
from lakewarden.planners.decide import next_look
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.agenda import Agenda
from lakewarden.service.barriers import BarrierAsked, Barriers
from lakewarden.service.blame import Blamed, blame
from lakewarden.service.book import Book
from lakewarden.service.desk import Desk
from lakewarden.service.events import Listener
from lakewarden.service.inbox import Approved, BarrierLifted, Inbox, Letter, Looked, PauseAsked, RunAsked
from lakewarden.service.questions import Questions
from lakewarden.service.request import Requests
from lakewarden.service.runs import Runs
from lakewarden.service.store.port import Store
from lakewarden.service.surroundings import Surroundings
from lakewarden.service.watch import Watch

log = structlog.get_logger(__name__)

QUESTION_SECONDS = 0.02
"""An open question is judged again this often: the moments between a writer's commits are short."""

UNKNOWN_SECONDS = 1.0
"""Runs whose ending is not known are looked at again this often."""

LONGEST_SLEEP_SECONDS = 1.0
"""The control thread shows at least this often that it is alive."""

COALESCE_SECONDS = 0.005
"""Appointments within this time are kept in one turn, so that thousands of tables do not mean as many wake-ups."""

BLAMED_RUNS = 200
"""A writer's failure is held against so many of the table's newest runs."""

LONGEST_TROUBLE_REST = timedelta(minutes=10)


@dataclass(slots=True)
class _Attention:
    """What the control thread remembers of a table between two looks."""

    decide_at: float | None = None
    looked_at: float | None = None
    troubles: int = 0
    trouble: str | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[Blamed, ...] = ()


class Daemon:
    """Runs the road. `turn` is the road itself; `run` repeats it until `stop`."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        watch: Watch,
        requests: Requests,
        book: Book,
        questions: Questions,
        runs: Runs,
        surroundings: Surroundings,
        barriers: Barriers,
        desk: Desk,
        store: Store,
        pools: Mapping[str, Pool],
        inbox: Inbox,
        clock: Clock,
        listener: Listener,
        dice: random.Random,
        drain: timedelta,
    ) -> None:
        self._tables = tables
        self._watch = watch
        self._requests = requests
        self._book = book
        self._questions = questions
        self._runs = runs
        self._surroundings = surroundings
        self._barriers = barriers
        self._desk = desk
        self._store = store
        self._pools = pools
        self._inbox = inbox
        self._clock = clock
        self._listener = listener
        self._dice = dice
        self._drain = drain
        self._agenda = Agenda()
        self._attention = {table: _Attention() for table in tables}
        self._postponed: list[Letter] = []
        self._unknown_at = 0.0
        self._stopping = threading.Event()
        self.last_turn = clock.monotonic()

    # -- life

    def start(self) -> None:
        """Take over what an earlier daemon left, start the pools, and spread the first looks over each cadence."""
        now = self._clock.monotonic()
        for table in self._tables.values():
            self._agenda.put(table.id, now + self._dice.uniform(0, min(table.poll.total_seconds(), 5.0)))
        self._runs.recover()
        for pool in self._pools.values():
            pool.start(self._inbox.put)

    def run(self) -> None:
        """Turn until told to stop, then drain. Returns when every worker is gone."""
        while not self._stopping.is_set():
            self._inbox.wait(self.turn())
        self._end()

    def stop(self) -> None:
        """Ask `run` to end; safe in a signal handler's thread. A second call ends it without draining."""
        if self._stopping.is_set():
            self._drain = timedelta(0)
        self._stopping.set()
        self._inbox.wake()

    def _end(self) -> None:
        """Let running work finish until the drain deadline; what is cut off then stays resumable."""
        deadline = self._clock.monotonic() + self._drain.total_seconds()
        log.info("draining", seconds=self._drain.total_seconds(), runs=len(self._book.under_way()))
        self._runs.drain()
        self._surroundings.drain()
        while self._book.under_way() and self._clock.monotonic() < deadline and self._drain:
            self._inbox.wait(min(self.turn(), 0.1))
        self._surroundings.cut_off()
        for pool in self._pools.values():
            pool.close()
        self.turn()  # the pools have told what became of the last runs
        self._barriers.refuse_all("the daemon is stopping")

    def looked(self, table: TableId) -> tuple[float | None, str | None]:
        """Return when (in monotonic seconds) a table was last looked at, and what went wrong then, if anything."""
        attention = self._attention[table]
        return attention.looked_at, attention.trouble

    def writer_failures(self, table: TableId) -> tuple[Blamed, ...]:
        """Return the failures of a table's writers that its timeline still tells of."""
        return self._attention[table].failures

    # -- the road

    def turn(self) -> float:
        """Do everything that is due and return the seconds until something is."""
        letters, dirty = self._inbox.take()
        self._open_all([*self._postponed, *letters])
        now = self._clock.monotonic()
        self.last_turn = now
        for table in dirty:
            self._agenda.put(table, now)
        while (due := self._agenda.pop(now)) is not None:
            self._attend(self._tables[due], now, dirty=due in dirty)
        self._carry_on(now)
        return self._until_next()

    def _carry_on(self, now: float) -> None:
        try:
            if now >= self._unknown_at:
                self._unknown_at = now + UNKNOWN_SECONDS
                self._runs.settle_unknown()
            self._barriers.attend()
            self._questions.review()
            self._runs.dispatch()
        except TemporaryError as trouble:
            log.warning("store_trouble", error=str(trouble))

    def _until_next(self) -> float:
        if self._questions.waiting() or self._barriers.is_asked():
            return QUESTION_SECONDS
        next_at = self._agenda.next_at()
        if next_at is None:
            return LONGEST_SLEEP_SECONDS
        return min(max(next_at - self._clock.monotonic(), COALESCE_SECONDS), LONGEST_SLEEP_SECONDS)

    def _attend(self, table: Table, now: float, *, dirty: bool = False) -> None:
        """Look at a table, decide where that can bring something new, and make the next appointment."""
        attention = self._attention[table.id]
        attention.looked_at = now
        if not self._watch.ready(table, anew=dirty):
            return  # its store is being asked, and the rest is done when it has answered
        try:
            look = self._watch.look(table, anew=dirty)
            ripe = attention.decide_at is not None and attention.decide_at <= now
            if dirty or look.news or attention.troubles or ripe:
                self._decide(table, look.observation.view, attention, now)
            attention.troubles = 0
            attention.trouble = None
        except (TemporaryError, PermanentError) as trouble:
            self._rest(table, attention, now, trouble)
            return
        except Exception as bug:
            log.exception("table_trouble", table=table.id)
            self._rest(table, attention, now, UnknownError(f"unexpected {type(bug).__name__}: {bug}"))
            return
        at = now + table.poll.total_seconds() * self._dice.uniform(0.9, 1.1)
        self._agenda.put(table.id, at if attention.decide_at is None else min(at, attention.decide_at))

    def _decide(self, table: Table, view: TableView, attention: _Attention, now: float) -> None:
        for warning in set(view.warnings) - set(attention.warnings):
            self._listener.warned(table, warning)
        attention.warnings = view.warnings
        attention.failures = self._blamed(table, view, attention.failures)
        for run in self._requests.consider(table, view, self._book.of(table.id)):
            self._book.take_in(run)
        again_at = next_look(self._requests.decisions(table.id))
        # A clock that has just run out is looked at once more a moment later, not at once.
        attention.decide_at = (
            None if again_at is None else now + max(0.2, (again_at - self._clock.now()).total_seconds())
        )

    def _blamed(self, table: Table, view: TableView, known: Sequence[Blamed]) -> tuple[Blamed, ...]:
        """Return the failures of the table's writers, each told once, with what was known of it when it was new."""
        by_instant = {blamed.failure.instant: blamed for blamed in known}
        news = [failure for failure in view.writers.failures if failure.instant not in by_instant]
        runs = self._store.runs(table=table.id, limit=BLAMED_RUNS) if news else ()
        for failure in news:
            by_instant[failure.instant] = blamed = blame(failure, runs)
            self._listener.writer_failed(table, blamed)
        return tuple(by_instant[failure.instant] for failure in view.writers.failures)

    def _rest(self, table: Table, attention: _Attention, now: float, trouble: LakewardenError) -> None:
        """Leave a table that cannot be observed alone for a while; its trouble is its own."""
        attention.troubles += 1
        attention.trouble = str(trouble)
        rest = min(table.poll * 2 ** min(attention.troubles - 1, 10), LONGEST_TROUBLE_REST)
        self._agenda.put(table.id, now + rest.total_seconds() * self._dice.uniform(0.9, 1.1))
        try:
            self._requests.unreadable(table, str(trouble))
        except TemporaryError as store:
            log.warning("store_trouble", error=str(store))
        if attention.troubles == 1:
            self._listener.trouble(table, str(trouble))

    # -- the inbox

    def _open_all(self, letters: list[Letter]) -> None:
        """Open letters in order; from the first one that the store could not note, keep them for the next turn."""
        self._postponed = []
        for number, letter in enumerate(letters):
            try:
                self._open(letter)
            except TemporaryError as trouble:
                log.warning("store_trouble", error=str(trouble))
                self._postponed = letters[number:]
                return

    def _open(self, letter: Letter) -> None:
        match letter:
            case Started() | Asked() | Ended() | Lost() | RoomChanged():
                self._runs.heard(letter)
            case RunAsked() | PauseAsked() | Approved() | BarrierAsked() | BarrierLifted():
                for table in self._desk.serve(letter):
                    self._attend_soon(table)
            case Looked(table=answered):
                self._agenda.put(answered, self._clock.monotonic())
            case _:
                assert_never(letter)

    def _attend_soon(self, table: TableId) -> None:
        """Decide on a table at the next turn, whether it has changed or not."""
        now = self._clock.monotonic()
        self._attention[table].decide_at = now
        self._agenda.put(table, now)
