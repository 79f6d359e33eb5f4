"""Claims: a renewed file beside each table keeps away daemons with another store (docs/ownership.md).

A claim prevents a mistake, and must not cause one. So all replicas of one store are one holder. If an object store has
no conditional writes, the daemon only warns.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import wait
from datetime import datetime
from functools import partial

import structlog

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.ports import NoConditionsError
from lakewarden.planners.settings import format_duration
from lakewarden.service.ownership.claim_file import Cadence
from lakewarden.service.ownership.table_claim import (
    CLOCKS_APART,
    TIMEOUT,
    Claimant,
    ForeignClaim,
    OwnClaim,
    TableClaim,
)
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.readers.places import place_of
from lakewarden.service.state.resources import Resources

log = structlog.get_logger(__name__)


class Claims:
    """The claims of every table that may be acted on. For any thread.

    The control thread asks before each permit. A thread of its own calls `maintain` again and again. `maintain` renews
    claims, checks whether other claims have ended, and stops the runs of a table that has lost its claim. It never
    waits for a storage.
    """

    def __init__(
        self,
        *,
        tables: Iterable[Table],
        resources: Resources,
        active_runs: ActiveRuns,
        moments: Moments,
        changed: Callable[[TableId], None],
        tell: Callable[[], None],
        cadence: Cadence | None = None,
    ) -> None:
        """Keep the claims of `tables`. `changed` gets each table that must be decided on again. `tell` is called when
        the answer of `missing` is there.
        """
        self._claimant = Claimant(holder=resources.store.identity(), life=uuid.uuid4().hex, since=resources.clock.now())
        self._active_runs = active_runs
        self._pools = resources.pools
        self._changed = changed
        self._listener = resources.listener
        self._clock = resources.clock
        self._threads = resources.threads
        self._moments = moments
        self._tell = tell
        self._cadence = cadence or Cadence()
        self._claims: dict[TableId, TableClaim] = {}
        self._warnings: dict[TableId, str] = {}
        self._unfit: dict[TableId, Blocked] = {}
        self._formats = resources.formats
        self._conditions = resources.storages.conditions
        for table in tables:
            self.enter(table)

    def enter(self, table: Table) -> None:
        """Keep the claim of a table from now on, if Lakewarden acts on the table and the table has a claim.

        If that fails unexpectedly, the table is blocked.
        """
        try:
            location = self._formats[table.format].claim_location(table) if table.mode is Mode.ACT else None
            writes = None if location is None else self._conditions(location)
        except Exception as bug:  # the failure of one table must not end the daemon
            log.exception("claim_not_kept", table=table.id)
            self._unfit[table.id] = Blocked(
                code="claimed_elsewhere",
                reason=f"its claim cannot be kept: {UnknownError.unforeseen(bug)}",
                remedy="report it with the log of the daemon; mode plan needs no claim",
            )
            return
        if location is not None and writes is not None:
            self._claims[table.id] = TableClaim(
                table=table,
                location=location,
                writes=writes,
                claimant=self._claimant,
                active_runs=self._active_runs,
                clock=self._clock,
                cadence=self._cadence,
            )
        elif location is not None:
            self._warn(table, "Lakewarden knows no conditional writes for its store")

    def leave(self, table: TableId, *, give_back: bool = False) -> None:
        """Stop keeping the claim of a table on which no run of ours is. `give_back`: delete it, too, if it is ours.

        It returns at once. A claim that cannot be deleted ends once it is silent.
        """
        claim = self._claims.pop(table, None)
        self._warnings.pop(table, None)
        self._unfit.pop(table, None)
        if give_back and claim is not None and isinstance(claim.known, OwnClaim):
            self._threads.submit(claim.give_back, place=place_of(claim.location))

    # -- for the control thread

    def known_since(self, table: TableId, mark: int) -> bool:
        """Whether `missing` can answer from a check of the claim that was begun since `mark`.

        If it cannot, such a check is begun: the claim is taken, or the daemon checks that it is still ours. It never
        waits. A check without an answer for `give_up` has failed. Only for a table that exists and has an active
        run of ours.
        """
        claim = self._claims.get(table)
        if claim is None or self._has_checked(claim, mark) or self._hangs(claim):
            return True
        if claim.taking is None or claim.taking.done():
            claim.taking_since, claim.taking_at = self._moments.next(), self._clock.monotonic()
            claim.taking = self._threads.submit(partial(self._check, claim, take=True), place=place_of(claim.location))
            claim.taking.add_done_callback(lambda _: self._tell())
        return self._has_checked(claim, mark)

    def missing(self, table: TableId) -> str | None:
        """Return why the claim of the table is not ours, as the check of `known_since` has found, or None if it is
        ours.

        Raises TemporaryError if the check failed.
        """
        claim = self._claims.get(table)
        if table in self._unfit:
            return self._unfit[table].reason
        if claim is None or claim.taking is None:
            return None
        if self._hangs(claim):
            raise TemporaryError(f"{claim.location}: its storage does not answer")
        try:
            claim.taking.result(timeout=0)
        except NoConditionsError as unfit:
            self._do_without(claim, unfit)
            return None
        except LakewardenError as error:
            if isinstance(claim.known, OwnClaim) and claim.is_overdue(self._cadence.give_up):
                return f"{self._overdue()}: {error}"
            raise
        blocked = self.blocked(table)
        return None if blocked is None else blocked.reason

    @staticmethod
    def _has_checked(claim: TableClaim, mark: int) -> bool:
        return claim.taking is not None and claim.taking.done() and claim.taking_since >= mark

    def _hangs(self, claim: TableClaim) -> bool:
        waits = claim.taking is not None and not claim.taking.done()
        return waits and self._clock.monotonic() - claim.taking_at >= self._cadence.give_up.total_seconds()

    def blocked(self, table: TableId) -> Blocked | None:
        """Return why the table is not ours to act on, as far as it is known: another daemon has claimed it, or our
        clock is ahead. Nothing is read.
        """
        claim = self._claims.get(table)
        known = None if claim is None else claim.known
        if table in self._unfit:
            return self._unfit[table]
        if claim is not None and claim.ahead > CLOCKS_APART:
            ahead = f"{round(claim.ahead.total_seconds())}s"
            return Blocked(
                code="clock_ahead",
                reason=f"this daemon's clock is {ahead} ahead of the clock of the table's "
                "storage: a commit with such a time would make the next commits of the writers fail, and deletions "
                "would come too early",
                remedy="set the clock of this machine, as by NTP. It is compared again at each renewal of the claim, "
                "within five minutes",
            )
        if claim is None or not isinstance(known, ForeignClaim):
            return None
        if known.claim is None:
            return Blocked(
                code="claimed_elsewhere",
                reason=f"claimed by a daemon that writes claims of another form: {claim.location}",
                remedy="stop the other daemon, or delete the file if it is certainly gone",
            )
        silent_after = format_duration(known.claim.silent_after)
        return Blocked(
            code="claimed_elsewhere",
            reason=f"claimed by another daemon that shares no store with this one: {known.claim.who}",
            remedy=f"stop one of the two, or let them share a store. If this table is a copy of one that the other "
            f"serves, or the other is gone, nothing renews the claim: it ends by itself {silent_after} after we first "
            f"saw it, or delete {claim.location} now",
        )

    def warning(self, table: TableId) -> str | None:
        """Return why no claim keeps another daemon away from the table, if it should have one."""
        return self._warnings.get(table)

    def told_of(self) -> Collection[TableId]:
        """Return the tables that `blocked` or `warning` says something about. Any thread may call it."""
        withheld = {
            table
            for table, one in list(self._claims.items())
            if isinstance(one.known, ForeignClaim) or one.ahead > CLOCKS_APART
        }
        return withheld.union(list(self._warnings), list(self._unfit))

    def alive_at(self, table: TableId, executor: str) -> datetime | None:
        """Return when a JVM was last known to carry out a run of ours on the table, on the clock of the storage of the
        table.

        The renewals of the claim show that. The last renewal of an earlier life of this daemon counts too.
        """
        claim = self._claims.get(table)
        return None if claim is None else claim.alive.get(executor)

    # -- for the thread that keeps the claims

    def check_again(self, tables: Iterable[TableId]) -> None:
        """Check the claims of tables that belonged to another replica soon. They name the JVMs that it used."""
        for claim in map(self._claims.get, tables):
            if claim is not None:
                claim.checked_at = float("-inf")

    def maintain(self) -> None:
        """Begin the checks that are due, and stop the runs that must not go on. Returns at once."""
        for claim in map(self._claims.get, self._active_runs.tables()):
            if claim is not None:
                self._stop_what_must_not_go_on(claim)
        for claim in list(self._claims.values()):
            if claim.is_due() and (claim.checking is None or claim.checking.done()):
                claim.checking = self._threads.submit(
                    partial(self._check_in_passing, claim), place=place_of(claim.location)
                )

    def give_back(self) -> None:
        """Delete the claims that are still ours, within a limited time. Only after every worker and its JVM are
        gone.

        A claim stays if executors of ours may still write to its table. It ends once it is silent.
        """
        ours = [one for one in self._claims.values() if isinstance(one.known, OwnClaim) and not one.may_be_written_to()]
        gone = [self._threads.submit(one.give_back, place=place_of(one.location)) for one in ours]
        wait(gone, timeout=TIMEOUT.total_seconds())
        errors = [one.exception() for one in gone if one.done() and not one.cancelled() and one.exception()]
        late = sum(one.cancel() or not one.done() for one in gone if not one.done())
        for error in errors[:1]:
            log.warning("claims_not_given_back", claims=len(errors), reason=str(error))
        if late:
            log.warning("claims_not_given_back", claims=late, reason="their stores did not answer in time")

    def _stop_what_must_not_go_on(self, claim: TableClaim) -> None:
        # A run without a step has no permit yet. The claim is taken at the first permit.
        begun = {run.id: run for run in claim.runs() if run.step is not None}
        profiles = {name: self._active_runs.profile_of(run) for name, run in begun.items()}
        pools = {name: self._pools[profile] for name, profile in profiles.items() if profile is not None}
        names = set(pools)
        lost = not isinstance(claim.known, OwnClaim) or claim.is_overdue(self._cadence.give_up)
        for run in names - claim.cancelled if lost else ():
            pools[run].cancel(run, self._overdue())
        if names - claim.killed and claim.is_overdue(self._cadence.kill):
            for pool in set(pools.values()):  # beside this thread: a process may wait in the kernel for a dead mount
                self._threads.submit(partial(pool.evict, self._overdue()), place=f"the workers of {claim.table.id}")
            claim.killed = names
        claim.cancelled = names if lost else set()
        claim.killed &= names

    def _overdue(self) -> str:
        return f"the claim of its table was lost, or could not be renewed for {format_duration(self._cadence.give_up)}"

    def _check(self, claim: TableClaim, *, take: bool) -> None:
        if claim.check(take=take):
            self._changed(claim.table.id)
            if isinstance(claim.known, ForeignClaim):
                self._listener.claimed_by_another(claim.table, self.blocked(claim.table.id))

    def _check_in_passing(self, claim: TableClaim) -> None:
        try:
            self._check(claim, take=False)
        except NoConditionsError as unfit:
            self._do_without(claim, unfit)
        except LakewardenError as error:
            log.warning("claim_failed", table=claim.table.id, reason=str(error))

    def _do_without(self, claim: TableClaim, unfit: NoConditionsError) -> None:
        if self._claims.pop(claim.table.id, None) is not None:
            self._warn(claim.table, str(unfit))

    def _warn(self, table: Table, why: str) -> None:
        warning = f"no claim keeps a second daemon with another store away from this table: {why}"
        self._warnings[table.id] = warning
        self._listener.warned(table, warning)
