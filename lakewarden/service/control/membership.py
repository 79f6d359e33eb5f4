"""Membership: how this daemon becomes a replica, stays one, and what follows for its tables.

Everything that replicas know of each other goes through the store, and is looked at here now and then.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.lock_proofs import LockProofs

log = structlog.get_logger(__name__)

WORD_SECONDS = 1.0
"""Words are left and taken, and a lost tenure is begun anew, this often."""

SHARINGS_IN_A_LEASE = 3


class Membership:
    """Keeps the daemon a replica among others. Only the control thread calls it; anybody may read `trouble`."""

    def __init__(
        self,
        *,
        tenure: ReplicaLease,
        shares: TableShares,
        attention: Poller,
        standings: Backoffs,
        approvals: Approvals,
        proofs: LockProofs,
        barriers: Barriers,
        book: ActiveRuns,
        claims: Claims,
        runs: RunManager,
        clock: Clock,
        lease: timedelta,
        alone: bool,
    ) -> None:
        """`alone`: this is the only daemon on the store, and attends every table for good."""
        self._tenure = tenure
        self._shares = shares
        self._attention = attention
        self._standings = standings
        self._approvals = approvals
        self._proofs = proofs
        self._barriers = barriers
        self._book = book
        self._claims = claims
        self._runs = runs
        self._clock = clock
        self._alone = alone
        self._share_seconds = lease.total_seconds() / SHARINGS_IN_A_LEASE
        self._joined = False
        self._recovered = False
        self._draining = False
        self._registered_anew = False
        self._words: set[TableId] = set()
        self._words_at = 0.0
        self._share_at = 0.0
        self.trouble: str | None = None

    def start(self) -> None:
        """Join, and take a first share of the tables. Raises TemporaryError if the store does not answer."""
        self._begin()
        self._share()
        now = self._clock.monotonic()
        self._words_at, self._share_at = now + WORD_SECONDS, now + self._share_seconds

    def registered_anew(self, *, gone: Collection[TableId]) -> None:
        """Share out anew at once: there are other tables, and those that are `gone` are attended no longer."""
        self._attention.let_go(gone)
        self._registered_anew = True
        self._words_at = self._share_at = self._clock.monotonic()

    def drain(self) -> None:
        """Take no table any more, and give none back: what runs may finish."""
        self._draining = True

    def leave_word(self, tables: Collection[TableId]) -> None:
        """Have whoever attends these tables told that they have changed."""
        if not self._alone:
            self._words.update(tables)

    def keep_up(self, now: float) -> None:
        """Do what is due. What the store does not answer is done a little later."""
        if self._joined and self._tenure.is_lost():
            self._give_up()
        if now < self._words_at:
            return
        self._words_at = now + WORD_SECONDS
        try:
            if not self._joined and not self._draining:
                self._begin()
            if self._joined:
                self._exchange(now)
            self.trouble = None
        except TemporaryError as trouble:
            self.trouble = str(trouble)
            log.warning("store_trouble", error=str(trouble))

    def _begin(self) -> None:
        self._joined = self._tenure.begin()
        self._recovered = False
        self._share_at = self._clock.monotonic()

    def _exchange(self, now: float) -> None:
        if now >= self._share_at:
            self._share()
            self._share_at = now + self._share_seconds
        if not self._alone:
            self._shares.leave_word(self._words)
            self._words.clear()
            for table in self._shares.take_words():
                self._attention.look_soon(table, anew=True)

    def _share(self) -> None:
        """Take what is free, go on with what its owners left, and learn what people have said to other replicas."""
        self._standings.refresh()
        self._approvals.refresh()
        self._proofs.refresh()
        if not self._draining and (self._registered_anew or not (self._alone and self._shares.attended)):
            moved = self._shares.take(busy=self._book.busy())
            self._registered_anew = False
            self._attention.let_go(moved.lost)
            self._claims.look_again(moved.gained)
            self._attention.take_on(moved.gained)
            self._recovered = self._recovered and not moved.gained
            if moved.gained or moved.lost:
                log.info("shares", gained=sorted(moved.gained), lost=sorted(moved.lost))
        if not self._recovered:
            self._runs.recover(self._shares.locations())
            self._recovered = True

    def _give_up(self) -> None:
        """Be nobody: other replicas take over from now on, perhaps this very daemon as one of them."""
        self._joined = False
        self._attention.let_go(self._shares.give_up())
        self._runs.forsake()
        self._barriers.refuse_all("this daemon has lost its lease and attends no table at the moment")
        self._words_at = self._clock.monotonic()
