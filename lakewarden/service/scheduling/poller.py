"""The poller: it observes the tables of this replica when they are due, and decides on them."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError
from lakewarden.planners.model.printable import without_credentials
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage.locations import is_local
from lakewarden.service.events import Sampler
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.rules.polling import NOTHING_HEARD, Announced, appointment, hook_arrived, interval, observed
from lakewarden.service.rules.writer_failures import Blamed, blame
from lakewarden.service.scheduling.run_requests import Requests
from lakewarden.service.state.daemon_state import DaemonState, Resources
from lakewarden.service.state.observations import Polled

# The poll queue: when each table is observed next. Every table is in it at most once.


class PollQueue:
    """Appointments in monotonic seconds. Only the control thread uses it."""

    def __init__(self) -> None:
        self._moments: list[float] = []
        """A heap of the times with appointments. Many tables share one."""
        self._due: dict[float, deque[TableId]] = {}
        self._appointments: dict[TableId, float] = {}

    def put(self, table: TableId, at: float) -> None:
        """Make an appointment, unless the table already has an earlier one."""
        appointment = self._appointments.get(table)
        if appointment is not None and appointment <= at:
            return
        self._appointments[table] = at
        tables = self._due.get(at)
        if tables is None:
            self._due[at] = deque((table,))
            heapq.heappush(self._moments, at)
        else:
            tables.append(table)

    def drop(self, table: TableId) -> None:
        """Cancel the appointment of the table, if it has one."""
        self._appointments.pop(table, None)

    def pop(self, now: float) -> TableId | None:
        """Remove and return a table that is due, the longest overdue first, or None."""
        at = self.next_at()
        if at is None or at > now:
            return None
        table = self._due[at].popleft()
        del self._appointments[table]
        return table

    def next_at(self) -> float | None:
        """Return the time of the next appointment."""
        while self._moments:
            at = self._moments[0]
            tables = self._due[at]
            while tables and self._appointments.get(tables[0]) != at:
                tables.popleft()  # it was cancelled, or moved to an earlier time
            if tables:
                return at
            del self._due[heapq.heappop(self._moments)]
        return None

    def __len__(self) -> int:
        return len(self._appointments)


log = structlog.get_logger(__name__)

BLAMED_RUNS = 200
"""A failure of a writer may count against so many of the newest runs of the table."""

LONGEST_RETRY_DELAY = timedelta(minutes=10)

LONGEST_REST_FOR_THE_STORE = timedelta(seconds=30)
"""A table that could not be decided on, because the store did not answer, is decided on after this, or earlier."""

FIRST_OBSERVATION_WITHIN_SECONDS = 5.0

LONGEST_DECIDING_SECONDS = 0.2
"""How long one turn may decide on tables. Runs, operators and probes must not wait longer for the control thread."""


SPREAD = 0.9, 1.03
"""Waits differ, so that tables do not come up all at once. With the rounding up, by a tenth at most."""

RECALLED_TOGETHER = 100
"""How many tables are recalled from the store in one go. A turn makes so many first decisions."""


@dataclass(slots=True)
class _Remembered:
    """What is remembered of a table between two observations."""

    dirty: bool = False
    decide_at: float | None = None
    polled_at: float | None = None
    poll_failures: int = 0
    failure: str | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[Blamed, ...] = ()
    familiar: bool = False
    announced: Announced = NOTHING_HEARD
    last_commit_at: datetime | None = None
    was_seen: bool = False


_NOTHING = _Remembered()
"""What is remembered of a table that another replica owns. It is never changed."""


class Poller:
    """Owns the poll queue. Only the control thread changes it. Any thread may read what it remembers."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        replica_lease: ReplicaLease,
        requests: Requests,
    ) -> None:
        self._tables = state.tables
        self._observations = state.observations
        self._requests = requests
        self._proofs = state.proofs
        self._folders = state.folders
        self._active_runs = state.active_runs
        self._store = resources.store
        self._replica_lease = replica_lease
        self._clock = resources.clock
        self._listener = resources.listener
        self._rng = resources.rng
        self._poll_queue = PollQueue()
        self._sampler = Sampler()
        self._dirty: set[TableId] = set()
        self._answered: dict[TableId, Polled | LakewardenError] = {}
        self._remembered: dict[TableId, _Remembered] = {}

    def take_on(self, tables: Collection[TableId]) -> None:
        """Take on tables. Their first observations are soon, and spread over each cadence."""
        now = self._clock.monotonic()
        for table in tables:
            self._remembered[table] = _Remembered()
            within = min(self._tables[table].poll.total_seconds(), FIRST_OBSERVATION_WITHIN_SECONDS)
            self._poll_queue.put(table, appointment(now, self._rng.uniform(0, within)))

    def let_go(self, tables: Collection[TableId]) -> None:
        """Give tables up, and forget what was seen of them, because it may not stay true."""
        for table in tables:
            self._remembered.pop(table, None)
            self._poll_queue.drop(table)
            self._dirty.discard(table)
            self._answered.pop(table, None)
            self._observations.forget(table)
            self._requests.forget(table)

    def polled_at(self, table: TableId) -> float | None:
        """Return when, in monotonic seconds, a table was last observed, or None."""
        return self._remembered.get(table, _NOTHING).polled_at

    def failure(self, table: TableId) -> str | None:
        """Return why the last attempt to observe a table failed, or None."""
        return self._remembered.get(table, _NOTHING).failure

    def writer_failures(self, table: TableId) -> tuple[Blamed, ...]:
        """Return the failures of the writers of a table that its timeline still shows."""
        return self._remembered.get(table, _NOTHING).failures

    def failing(self) -> Collection[TableId]:
        """Return the tables with a failure, of the last observation or of writers. Any thread may call it."""
        return {table for table, entry in list(self._remembered.items()) if entry.failure is not None or entry.failures}

    def poll_soon(self, table: TableId, *, anew: bool = False) -> None:
        """Observe a table at the next turn, if it is owned. With `anew` it is read even if its token is equal."""
        if table in self._remembered:
            self._poll_queue.put(table, self._clock.monotonic())
            if anew:
                self._dirty.add(table)

    def hook_arrived(self, table: TableId) -> None:
        """Observe a table at the next turn because a hook says that it has changed, if it is owned."""
        if table in self._remembered:
            remembered = self._remembered[table]
            remembered.announced = hook_arrived(remembered.announced, self._clock.monotonic())
            self.poll_soon(table, anew=True)

    def interval(self, table: Table) -> timedelta:
        """Return how often a table is polled now. Any thread may call it."""
        if is_local(table.location):
            return table.poll
        announced = self._remembered.get(table.id, _Remembered()).announced
        return interval(announced, poll=table.poll, with_hooks=table.poll_with_hooks, now=self._clock.monotonic())

    def decide_soon(self, table: TableId) -> None:
        """Decide on a table at the next turn even if it has not changed, if it is owned."""
        if table in self._remembered:
            self._remembered[table].decide_at = self._clock.monotonic()
            self.poll_soon(table)

    def next_at(self) -> float | None:
        """Return when, in monotonic seconds, there may be something to do next."""
        if self._answered:
            return self._clock.monotonic()
        return self._poll_queue.next_at()

    def poll_due(self, now: float) -> None:
        """Have every due table observed, and decide on those that have been, as long as this replica may act.

        What takes too long for one turn is left for the next one.
        """
        if not self._replica_lease.holds():
            return
        for table in self._folders.changed():
            self.decide_soon(table)
        self._observations.request(list(self._due(now)))
        self._answered.update(self._observations.answered())
        self._recall()
        until = self._clock.monotonic() + LONGEST_DECIDING_SECONDS
        decided: list[Table] = []
        while self._answered and self._clock.monotonic() <= until and self._replica_lease.holds():
            polled = self._tables[next(iter(self._answered))]
            if self._process(polled, self._answered.pop(polled.id), now):
                decided.append(polled)
        self._keep(decided, now)

    def _recall(self) -> None:
        """Read from the store what the next decisions need, for many tables in one go."""
        tables = [self._tables[table] for table in itertools.islice(self._answered, RECALLED_TOGETHER)]
        with contextlib.suppress(TemporaryError):  # each decision asks the store again
            self._requests.recall(tables)

    def _keep(self, decided: Sequence[Table], now: float) -> None:
        """Store what was decided on tables, and queue the runs that are due."""
        try:
            if not self._replica_lease.holds():
                raise TemporaryError("the lease of this daemon has run out meanwhile")
            self._requests.keep()
        except TemporaryError as store:
            for table in decided:
                self._decide_again(table, store, now)
            return
        for table in decided:
            try:
                self._requests.queue(table)
            except TemporaryError as store:
                self._decide_again(table, store, now)
            except LakewardenError as failure:
                self._rest(table, self._remembered[table.id], now, failure)
            except Exception as bug:
                log.exception("poll_failed", table=table.id)
                self._rest(table, self._remembered[table.id], now, UnknownError.unforeseen(bug))

    def _due(self, now: float) -> Iterator[tuple[Table, bool]]:
        """Yield the tables that are due, and whether they must be read even if their tokens are equal."""
        while (due := self._poll_queue.pop(now)) is not None:
            dirty = due in self._dirty
            self._dirty.discard(due)
            self._remembered[due].dirty |= dirty
            yield self._tables[due], dirty

    def _process(self, table: Table, brought: Polled | LakewardenError, now: float) -> bool:
        """Decide on a table if its observation can change a decision, and make the next appointment. Return whether it
        was decided on.
        """
        remembered = self._remembered[table.id]
        remembered.polled_at = now
        try:
            if isinstance(brought, LakewardenError):
                raise brought
            if brought.news:
                self._note_commit(brought.observation.view, remembered)
            decision_due = remembered.decide_at is not None and remembered.decide_at <= now
            changed = remembered.dirty or brought.news or remembered.poll_failures or decision_due
            if changed and not self._decided(table, brought.observation.view, remembered, now):
                return False
            remembered.poll_failures = 0
            remembered.failure = None
        except LakewardenError as failure:
            self._rest(table, remembered, now, failure)
            return False
        except Exception as bug:
            log.exception("poll_failed", table=table.id)
            self._rest(table, remembered, now, UnknownError.unforeseen(bug))
            return False
        closely = self._proofs.polls_again_within(table.id)
        wait = (closely or self.interval(table)).total_seconds() * self._rng.uniform(*SPREAD)
        if remembered.decide_at is not None:
            wait = min(wait, remembered.decide_at - now)
        self._poll_queue.put(table.id, appointment(now, wait))
        return bool(changed)

    def _decided(self, table: Table, view: TableView, remembered: _Remembered, now: float) -> bool:
        """Decide on a table. Return False if the store does not answer."""
        try:
            self._decide(table, view, remembered, now)
        except TemporaryError as store:
            self._decide_again(table, store, now)
            return False
        remembered.dirty = False
        return True

    def _decide_again(self, table: Table, store: TemporaryError, now: float) -> None:
        """Decide on a table again soon: the store did not answer. That is no failure of the table, which has been
        observed.
        """
        if (withheld := self._sampler.admit("store_unavailable")) is not None:
            log.warning("store_unavailable", table=table.id, error=str(store), not_told_before=withheld)
        remembered = self._remembered[table.id]
        remembered.dirty, remembered.poll_failures, remembered.failure = True, 0, None
        rest = min(table.poll, LONGEST_REST_FOR_THE_STORE).total_seconds()
        self._poll_queue.put(table.id, appointment(now, rest * self._rng.uniform(*SPREAD)))

    def _note_commit(self, view: TableView, remembered: _Remembered) -> None:
        """Note whether a hook has announced the newest commit of the writers."""
        at = view.writers.last_commit_at
        committed = remembered.was_seen and at != remembered.last_commit_at
        remembered.announced = observed(remembered.announced, committed=committed, now=self._clock.monotonic())
        remembered.last_commit_at, remembered.was_seen = at, True

    def _decide(self, table: Table, view: TableView, remembered: _Remembered, now: float) -> None:
        for warning in set(view.warnings) - set(remembered.warnings):
            self._listener.warned(table, warning)
        remembered.warnings = view.warnings
        self._note_failures(table, view, remembered)
        self._requests.consider(table, view)
        again_at = self._requests.again_at(table.id)
        # A heartbeat that has just run out is observed again a moment later, not at once.
        remembered.decide_at = (
            None if again_at is None else now + max(0.2, (again_at - self._clock.now()).total_seconds())
        )

    def _note_failures(self, table: Table, view: TableView, remembered: _Remembered) -> None:
        """Remember the failures of the writers of a table with what was known when each was new. Then report the new
        ones.

        So a listener that reports a failure finds it in the status of the table. Failures in the first complete
        observation happened before this replica owned the table. They are shown but not reported. Otherwise each
        restart would report old failures again.
        """
        by_instant = {blamed.failure.instant: blamed for blamed in remembered.failures}
        news = [failure for failure in view.writers.failures if failure.instant not in by_instant]
        if news:
            runs = self._store.runs(table=table.id, limit=BLAMED_RUNS)
            instants = {instant.time for instant in view.timeline.instants}
            by_instant |= {failure.instant: blame(failure, runs, instants=instants) for failure in news}
        remembered.failures = tuple(by_instant[failure.instant] for failure in view.writers.failures)
        for failure in news if remembered.familiar else ():
            self._listener.writer_failed(table, by_instant[failure.instant])
        remembered.familiar = remembered.familiar or not view.faults

    def _rest(self, table: Table, remembered: _Remembered, now: float, failure: LakewardenError) -> None:
        """Delay a table that cannot be observed. Other tables are not affected."""
        remembered.poll_failures += 1
        reason = remembered.failure = without_credentials(str(failure))
        rest = min(table.poll * 2 ** min(remembered.poll_failures - 1, 10), LONGEST_RETRY_DELAY)
        self._poll_queue.put(table.id, appointment(now, rest.total_seconds() * self._rng.uniform(*SPREAD)))
        try:
            self._requests.unreadable(table, reason)
        except TemporaryError as store:
            log.warning("store_unavailable", error=str(store))
        if remembered.poll_failures == 1:
            self._listener.poll_failed(table, reason)
