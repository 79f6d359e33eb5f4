"""The claim of one table: what this daemon knows of its file, and how it takes, renews and deletes it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from lakewarden.executors.application import ClusterApplication
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import ConditionalWrites, Versioned
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.ownership.claim_file import Cadence, Claim
from lakewarden.service.state.active_runs import UNDER_WAY, ActiveRuns

log = structlog.get_logger(__name__)

TIMEOUT = timedelta(seconds=2)
"""How long one check of a claim waits for another, and how long the end of the daemon waits for its claims."""

CLOCKS_APART = timedelta(seconds=30)
"""By so much our clock may be ahead of that of a table's storage. Iceberg refuses a commit that is a minute older than
the one before it (`TableMetadata` of 1.11.0).
"""

_REMEMBERED_EXECUTORS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimant:
    """The daemon as its claims name it: its store, this life of it, and when that began."""

    holder: str
    life: str
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnClaim:
    """The claim is ours, in this version of its file."""

    claim: Claim
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignClaim:
    """The claim belongs to another daemon. `claim` is None if its content cannot be read.

    This version of the file was first seen at `seen_at`, in monotonic seconds.
    """

    claim: Claim | None
    version: str
    seen_at: float


@dataclass(kw_only=True, slots=True, eq=False)
class TableClaim:
    """What this daemon knows about the claim of one table.

    `lock` guards everything but `renewed_at` and `ahead`, which any thread may read. `renewed_at` is when the last
    renewal that succeeded was begun. No other daemon can have seen that change before this moment. `checked_at` is when
    the last check was begun, which reads the file. `ahead` is by how much our clock was certainly ahead of that of the
    storage at the last renewal.
    """

    table: Table
    location: str
    writes: ConditionalWrites
    claimant: Claimant
    active_runs: ActiveRuns
    clock: Clock
    cadence: Cadence
    lock: threading.Lock = field(default_factory=threading.Lock)
    known: OwnClaim | ForeignClaim | None = None
    renewed_at: float = float("-inf")
    checked_at: float = float("-inf")
    checking: Future[None] | None = None
    taking: Future[None] | None = None
    taking_since: int = 0
    taking_at: float = float("-inf")
    cancelled: set[RunId] = field(default_factory=set)
    killed: set[RunId] = field(default_factory=set)
    alive: dict[str, datetime] = field(default_factory=dict)
    ahead: timedelta = timedelta()

    def runs(self) -> list[Run]:
        """Return our runs on the table that are under way."""
        return [run for run in self.active_runs.of(self.table.id).values() if run.state in UNDER_WAY]

    def may_be_written_to(self) -> bool:
        """Whether it is not known how a run of ours on a cluster ended, so its executors may still write."""
        runs = self.active_runs.of(self.table.id).values()
        return any(run.state is RunState.UNKNOWN and run.application is not None for run in runs)

    def is_overdue(self, by: timedelta) -> bool:
        """Whether the last renewal is at least this long ago."""
        return self.clock.monotonic() - self.renewed_at >= by.total_seconds()

    def is_due(self) -> bool:
        """Whether a check is due. The interval depends on whether the claim is ours, and whether the table has
        a run.
        """
        now = self.clock.monotonic()
        known = self.known
        if self.checked_at < 0:  # to know the holder, and the JVMs that an earlier life of ours has left there
            return True
        if isinstance(known, OwnClaim):
            runs = self.runs()
            every = self.cadence.busy if runs else self.cadence.idle
            fits = known.claim.silent_after == self._silence(runs)
            return not fits or now - self.renewed_at >= every.total_seconds()
        if isinstance(known, ForeignClaim):
            return now - self.checked_at >= self.cadence.foreign.total_seconds()
        return False

    def check(self, *, take: bool) -> bool:
        """Read the file, and take or renew the claim if that is due. Return whether the table must be decided on again.

        Only with `take` a missing claim is created. Without `take` the table may have been dropped.
        """
        with self._locked():
            before, alive, began = self._state(), set(self.alive), self.clock.monotonic()
            self.checked_at = began
            try:
                self.known = self._seen(began, take=take)
            except FileNotFoundError as gone:
                self.known = None
                raise TemporaryError(f"{self.location} has no folder to be in: the table is gone") from gone
        return before != self._state() or not alive.issuperset(self.alive)

    def _state(self) -> tuple[bool, bool]:
        return isinstance(self.known, ForeignClaim), self.ahead > CLOCKS_APART

    def give_back(self) -> None:
        """Delete the file if the claim is still ours."""
        with self._locked():
            if isinstance(self.known, OwnClaim):
                self.writes.delete(self.location, version=self.known.version)
            self.known = None

    def _silence(self, runs: Sequence[Run]) -> timedelta:
        """Return how long the claim is valid. Executors on a cluster may write for a while after our workers have
        ended, and another daemon must not begin before.
        """
        if not runs:
            return self.cadence.idle_silence
        outlive = (ClusterApplication.of_row(run.application).executors_end_within for run in runs if run.application)
        return self.cadence.busy_silence + timedelta(seconds=max(outlive, default=0))

    def _seen(self, began: float, *, take: bool) -> OwnClaim | ForeignClaim | None:
        found = self.writes.versioned(self.location)
        if found is None:
            return self._written(began, found) if take else None
        claim = Claim.of(found.content)
        if claim is None or claim.holder != self.claimant.holder:
            return self._foreign(began, found, claim)
        if claim.life != self.claimant.life:
            self.alive.update(dict.fromkeys(claim.executors, found.modified))
            if not take:
                return None  # an earlier life of ours, or another replica that owns the table now
            return self._written(began, found)
        runs = self.runs()
        fits = claim.silent_after == self._silence(runs) and set(_executors(runs)) <= set(claim.executors)
        if fits and not self.is_overdue(self.cadence.busy if runs else self.cadence.idle):
            return OwnClaim(claim=claim, version=found.version)
        return self._written(began, found)

    def _foreign(self, began: float, found: Versioned, claim: Claim | None) -> OwnClaim | ForeignClaim:
        """Take over a claim that this process has seen unchanged for long enough, on its own monotonic clock."""
        before = self.known
        if not isinstance(before, ForeignClaim) or before.version != found.version:
            return ForeignClaim(claim=claim, version=found.version, seen_at=self.clock.monotonic())
        silence = self.cadence.idle_silence if claim is None else claim.silent_after
        if began - before.seen_at < silence.total_seconds():
            return before
        log.warning("claim_taken_over", table=self.table.id, silent_seconds=round(began - before.seen_at))
        return self._written(began, found)

    def _written(self, began: float, over: Versioned | None) -> OwnClaim:
        """Write our claim in place of the file that was read. Raises TemporaryError if another daemon was faster."""
        runs = self.runs()
        before = None if over is None else Claim.of(over.content)
        claim = Claim(
            holder=self.claimant.holder,
            life=self.claimant.life,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=self.claimant.since,
            counter=0 if before is None else before.counter + 1,
            silent_after=self._silence(runs),
            executors=_executors(runs),
        )
        now = self.clock.now()
        if over is None:
            made = self.writes.create(self.location, claim.to_bytes())
        else:
            made = self.writes.replace(self.location, claim.to_bytes(), version=over.version)
        if made is None:
            raise TemporaryError(f"{self.location} was changed by another daemon just now")
        self.renewed_at = began
        self.ahead = max(timedelta(), now - made.modified)
        self.alive.update(dict.fromkeys(claim.executors, made.modified))
        for forgotten in list(self.alive)[:-_REMEMBERED_EXECUTORS]:
            del self.alive[forgotten]
        return OwnClaim(claim=claim, version=made.version)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.lock.acquire(timeout=TIMEOUT.total_seconds()):
            raise TemporaryError(f"{self.location} is being read, and its storage does not answer")
        try:
            yield
        finally:
            self.lock.release()


def _executors(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(sorted({run.executor for run in runs if run.executor is not None}))
