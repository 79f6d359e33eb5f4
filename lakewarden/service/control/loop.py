"""The daemon's control thread: it owns the road from a dirty table to a settled run.

agenda -> watch -> decide and request -> dispatch -> pool -> permits -> settle -> the table is dirty again.
Every turn does all that is due and tells how long it may sleep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import structlog

from lakewarden.executors.contract import Asked, Ended, Lost, Pool, RoomChanged, Started
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.command_handler import CommandHandler
from lakewarden.service.control.commands import (
    Approved,
    BarrierLifted,
    CommandQueue,
    Letter,
    PauseAsked,
    RunAsked,
    Wish,
)
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.membership import Membership
from lakewarden.service.ownership.claims import ClaimKeeper, Claims
from lakewarden.service.ownership.replica_lease import ReplicaLease, ReplicaLeaseKeeper
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.rules.shutdown import Phase, Shutdown
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.barriers import BarrierAsked, Barriers

log = structlog.get_logger(__name__)

QUESTION_SECONDS = 0.02
"""An open question is judged again this often: the moments between a writer's commits are short."""

STORE_REST_SECONDS = 0.5
"""A store that could not note something is left alone for as long, whatever is waiting."""

UNKNOWN_SECONDS = 1.0
"""Runs whose ending is not known are looked at again this often."""

LONGEST_SLEEP_SECONDS = 1.0
"""The control thread shows at least this often that it is alive."""

LONGEST_SLEEP_WHILE_ENDING_SECONDS = 0.1

_LAST_TURNS = 30
"""For so many turns the tables of ended runs are waited for: then their runs are left to whoever settles next."""

COALESCE_SECONDS = 0.005
"""Appointments within this time are kept in one turn, so that thousands of tables do not mean as many wake-ups."""


class ControlLoop:
    """Runs the road. `turn` is the road itself; `run` repeats it until `stop`."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        tenure: ReplicaLease,
        membership: Membership,
        discovery: Discovery,
        shares: TableShares,
        attention: Poller,
        book: ActiveRuns,
        questions: PermitQueue,
        runs: RunManager,
        surroundings: PermitContexts,
        barriers: Barriers,
        desk: CommandHandler,
        pools: Mapping[str, Pool],
        claims: Claims,
        inbox: CommandQueue,
        clock: Clock,
        shutdown: Shutdown,
    ) -> None:
        self._tables = tables
        self._tenure = tenure
        self._membership = membership
        self._discovery = discovery
        self._shares = shares
        self._attention = attention
        self._book = book
        self._questions = questions
        self._runs = runs
        self._surroundings = surroundings
        self._barriers = barriers
        self._desk = desk
        self._pools = pools
        self._claims = claims
        self._inbox = inbox
        self._clock = clock
        self._shutdown = shutdown
        self.phase = Phase.SERVING
        self._postponed: list[Letter] = []
        self._store_is_in_trouble = False
        self._unknown_at = 0.0
        self.last_turn = clock.monotonic()

    # -- life

    def start(self) -> None:
        """Join the other replicas, take over what was left of this one's tables, and start the pools.

        Raises TemporaryError if the store does not answer.
        """
        self._membership.start()
        for pool in self._pools.values():
            pool.start(self._inbox.put)

    def run(self) -> None:
        """Turn until told to stop and whatever may finish has finished. Returns when every worker is gone."""
        with ReplicaLeaseKeeper(self._tenure), ClaimKeeper(self._claims):
            try:
                while self.phase is not Phase.OVER:
                    self._inbox.wait(self.turn())
            finally:
                for pool in self._pools.values():
                    pool.close()
            self._part()

    def stop(self) -> None:
        """Ask `run` to end; safe in a signal handler's thread. A second call ends it without waiting for anything."""
        self._shutdown.ask()
        self._inbox.wake()

    def _part(self) -> None:
        """Settle what the closed pools have told of, and leave the store. If it does not answer, others will settle."""
        self.turn()
        for _ in range(_LAST_TURNS):
            if not self._runs.settling():
                break
            self._inbox.wait(LONGEST_SLEEP_WHILE_ENDING_SECONDS)
            self.turn()
        self._barriers.refuse_all("the daemon is stopping")
        self._claims.give_back()
        try:
            self._tenure.end()
        except TemporaryError as trouble:
            log.warning("store_trouble", error=str(trouble))

    # -- the road

    def turn(self) -> float:
        """Do everything that is due and return the seconds until something is."""
        self.last_turn = now = self._clock.monotonic()
        if self.phase is Phase.SERVING:
            self._discovery.keep_up(now)
        self._membership.keep_up(now)
        letters, dirty = self._inbox.take()
        self._store_is_in_trouble = False
        self._open_all([*self._postponed, *letters])
        self._spread_word(dirty)
        self._go_on_ending()
        if self._membership.trouble is None:  # else nothing that is decided could be kept
            self._attention.attend(self._clock.monotonic())
        self._carry_on(now)
        return self._until_next()

    def _spread_word(self, dirty: set[TableId]) -> None:
        ours = {table for table in dirty if self._shares.attends(table)}
        for table in ours:
            self._attention.look_soon(table, anew=True)
        self._membership.leave_word(dirty - ours)

    def _carry_on(self, now: float) -> None:
        try:
            if now >= self._unknown_at:
                self._unknown_at = now + UNKNOWN_SECONDS
                self._runs.settle_unknown()
            self._runs.settle()
            self._desk.attend()
            self._barriers.attend()
            self._questions.review()
            if self._tenure.holds():
                self._runs.dispatch()
        except TemporaryError as trouble:
            self._postpone(trouble)

    def _postpone(self, trouble: TemporaryError) -> None:
        log.warning("store_trouble", error=str(trouble))
        self._store_is_in_trouble = True

    def _until_next(self) -> float:
        if self._store_is_in_trouble:
            return STORE_REST_SECONDS
        if self._questions.waiting() or self._barriers.is_asked():
            return QUESTION_SECONDS
        longest = LONGEST_SLEEP_WHILE_ENDING_SECONDS if self._shutdown.is_asked() else LONGEST_SLEEP_SECONDS
        next_at = self._attention.next_at()
        if next_at is None:
            return longest
        return min(max(next_at - self._clock.monotonic(), COALESCE_SECONDS), longest)

    # -- the end

    def _go_on_ending(self) -> None:
        before = self.phase
        if before is Phase.OVER:
            return
        self.phase = self._shutdown.phase(busy=bool(self._book.under_way()))
        if self.phase is before:
            return
        log.info("stopping", phase=self.phase, runs=len(self._book.under_way()))
        if before is Phase.SERVING:
            self._runs.drain()
            self._surroundings.drain()
            self._membership.drain()
        if self.phase is not Phase.DRAINING:
            self._surroundings.cut_off()
        if self.phase is Phase.STEPPING_BACK:
            for run in self._book.under_way():
                profile = self._tables[run.table].profile_of(run.service)
                self._pools[profile].cancel(run.id, "the drain deadline has passed")

    # -- the inbox

    def _open_all(self, letters: list[Letter]) -> None:
        """Open letters in order; from the first one that the store could not note, keep them for the next turn."""
        self._postponed = []
        for number, letter in enumerate(letters):
            try:
                self._open(letter)
            except TemporaryError as trouble:
                self._postpone(trouble)
                self._postponed = letters[number:]
                return

    def _open(self, letter: Letter) -> None:
        match letter:
            case Started() | Asked() | Ended() | Lost() | RoomChanged():
                self._runs.heard(letter)
            case RunAsked() | PauseAsked() | Approved() | BarrierAsked() | BarrierLifted():
                self._serve(letter)
            case _:
                assert_never(letter)

    def _serve(self, wish: Wish) -> None:
        for table in self._desk.serve(wish):
            self._attention.decide_soon(table)
