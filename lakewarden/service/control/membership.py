"""Membership: how this daemon becomes and stays a replica, and what this means for its tables.

Replicas know each other only through the store. This module reads it at intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import TableId
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.daemon_state import DaemonState

log = structlog.get_logger(__name__)

WORD_SECONDS = 1.0
"""How often the daemon exchanges notices about changed tables, and tries to get a lost lease again."""

SHARINGS_IN_A_LEASE = 3

AFTER_A_LAPSE_SECONDS = 0.2
"""The clock of the database is asked so long after a lease may have ended there."""

ALONE_SECONDS = 3600
"""A daemon that is alone on its store has told it all that is there. It reads what housekeeping has forgotten."""

MOST_NAMED = 100
"""A line of the log names so many tables. Collectors of logs cut long lines."""


class Membership:
    """Keeps the daemon a replica among others. Only the control thread calls it. Any thread may read `store_error`."""

    def __init__(
        self,
        *,
        state: DaemonState,
        ownership: Ownership,
        scheduling: SchedulingParts,
        clock: Clock,
        lease: timedelta,
        alone: bool,
    ) -> None:
        """`alone`: this is the only daemon on the store, and owns every table for good."""
        self._replica_lease = ownership.replica_lease
        self._shares = ownership.shares
        self._poller = scheduling.poller
        self._service_states = state.service_states
        self._writer_signs = state.writer_signs
        self._rows = (
            state.service_states,
            state.approvals,
            state.rewrites,
            state.proofs,
            state.writer_signs,
            state.folders,
        )
        self._barriers = state.barriers
        self._active_runs = state.active_runs
        self._runs = scheduling.runs
        self._clock = clock
        self._alone = alone
        self._share_seconds = lease.total_seconds() / SHARINGS_IN_A_LEASE
        self._joined = False
        self._recovered = False
        self._draining = False
        self._tables_changed = False
        self._notices: set[TableId] = set()
        self._words_at = 0.0
        self._share_at = 0.0
        self._read_at = 0.0
        self.store_error: str | None = None

    def start(self) -> None:
        """Join, and take a first share of the tables. Raises TemporaryError if the store does not answer."""
        self._begin()
        self._share()
        now = self._clock.monotonic()
        self._words_at, self._share_at = now + WORD_SECONDS, now + self._share_seconds

    def tables_changed(self, *, gone: Collection[TableId]) -> None:
        """Share the tables again at once. The tables that are `gone` are no longer owned."""
        self._poller.let_go(gone)
        self._tables_changed = True
        self._words_at = self._share_at = self._clock.monotonic()

    def settings_changed(self, tables: Collection[TableId]) -> None:
        """Begin anew with tables that have other settings now. They have no run. What was seen of them is forgotten."""
        owned = [table for table in tables if self._shares.owns(table)]
        self._poller.let_go(tables)
        self._poller.take_on(owned)

    def drain(self) -> None:
        """Take no more tables, and give none back. Active runs may finish."""
        self._draining = True

    def notify_owners(self, tables: Collection[TableId]) -> None:
        """Have the owners of these tables told that the tables have changed."""
        if not self._alone:
            self._notices.update(tables)

    def keep_up(self, now: float) -> None:
        """Do what is due. If the store does not answer, it is done a little later."""
        if self._joined and self._replica_lease.is_lost():
            self._give_up()
        if now < self._words_at:
            return
        self._words_at = now + WORD_SECONDS
        try:
            if not self._joined and not self._draining:
                self._begin()
            if self._joined:
                self._exchange(now)
            self.store_error = None
        except TemporaryError as store_error:
            self.store_error = str(store_error)
            log.warning("store_unavailable", error=str(store_error))

    def _begin(self) -> None:
        self._joined = self._replica_lease.begin()
        self._recovered = False
        self._read_at = self._clock.monotonic()
        self._share_at = self._clock.monotonic()

    def _exchange(self, now: float) -> None:
        if now >= self._share_at:
            self._share()
            self._share_at = now + self._until_next_sharing()
            self._words_at = min(self._words_at, self._share_at)
        if not self._alone:
            self._shares.notify_owners(self._notices)
            self._notices.clear()
            for table in self._shares.take_notices():
                self._poller.poll_soon(table, anew=True)

    def _until_next_sharing(self) -> float:
        """Return the seconds until the next sharing: at the latest when the lease of a silent replica ends."""
        lapse = None if self._draining else self._shares.first_lapse
        if lapse is None:
            return self._share_seconds
        return min(self._share_seconds, max(lapse.total_seconds(), 0) + AFTER_A_LAPSE_SECONDS)

    def _share(self) -> None:
        """Take free tables, continue the runs of their owners, and read what operators have told other replicas."""
        self._service_states.keep_up()
        self._writer_signs.save()
        now = self._clock.monotonic()
        if not self._alone or now >= self._read_at:
            for rows in self._rows:
                rows.refresh()
            self._read_at = now + ALONE_SECONDS
        if not self._draining and (self._tables_changed or not (self._alone and self._shares.owned)):
            moved = self._shares.take(busy=self._active_runs.busy())
            self._tables_changed = False
            self._poller.let_go(moved.lost)
            self._poller.take_on(moved.gained)
            self._recovered = self._recovered and not moved.gained
            if moved.gained or moved.lost:
                log.info("shares", gained=named(moved.gained), lost=named(moved.lost))
        if not self._recovered:
            self._runs.recover(self._shares.locations())
            self._recovered = True

    def _give_up(self) -> None:
        """Give up all tables. Other replicas take over from now on. This daemon may be one of them."""
        self._joined = False
        self._poller.let_go(self._shares.give_up())
        self._runs.abandon()
        self._barriers.refuse_all("this daemon has lost its lease and owns no tables right now")
        self._words_at = self._clock.monotonic()


def named(tables: Collection[TableId]) -> Sequence[str]:
    """Return the ids of tables for a line of the log. Of very many, the first ones and the number of the others."""
    named = sorted(tables)
    more = len(named) - MOST_NAMED
    return named if more <= 0 else [*named[:MOST_NAMED], f"and {more} more"]
