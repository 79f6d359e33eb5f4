"""Claims: a renewed file beside each table keeps away a daemon that shares no store with us (docs/ownership.md).

It is for a mistake, and so it never gets in the way of one's own: all replicas of one store are one holder, and where a
store cannot write on conditions, a warning takes its place.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from lakewarden.executors.contract import Pool
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.ports import ConditionalWrites, NoConditionsError, TableFormat, Versioned
from lakewarden.planners.settings import format_duration
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.claim_file import Cadence, Claim
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.readers.places import place_of
from lakewarden.service.state.readers.threads import Threads

log = structlog.get_logger(__name__)

PATIENCE = timedelta(seconds=2)
"""How long one look at a claim waits for another, and how long the end of the daemon waits for its claims."""

_REMEMBERED_EXECUTORS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ours:
    """The claim is ours, in this version of its file."""

    claim: Claim
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Foreign:
    """The claim is somebody else's. `claim` is None where nobody can read it; this version was first seen at `seen_at`,
    in monotonic seconds.
    """

    claim: Claim | None
    version: str
    seen_at: float


@dataclass(slots=True, eq=False)
class _Place:
    """A table's claim, as far as we know. `lock` guards everything but `renewed_at`, which any thread may read.

    `renewed_at` is when we last asked for a renewal that succeeded: nobody can have seen it change before.
    """

    table: Table
    location: str
    writes: ConditionalWrites
    lock: threading.Lock = field(default_factory=threading.Lock)
    known: _Ours | _Foreign | None = None
    renewed_at: float = float("-inf")
    looked_at: float = float("-inf")
    looking: Future[None] | None = None
    taking: Future[None] | None = None
    taking_since: int = 0
    cancelled: set[RunId] = field(default_factory=set)
    killed: set[RunId] = field(default_factory=set)
    alive: dict[str, datetime] = field(default_factory=dict)


class Claims:
    """The claims of every table that may be acted on. For any thread.

    The control thread asks before each permit; `attend`, called again and again by a thread of its own, renews, looks
    whether others have ended, and stops the runs of a table whose claim is lost. It never waits for a storage.
    """

    def __init__(
        self,
        *,
        tables: Iterable[Table],
        formats: Mapping[str, TableFormat],
        conditions: Callable[[str], ConditionalWrites | None],
        holder: str,
        book: ActiveRuns,
        pools: Mapping[str, Pool],
        changed: Callable[[TableId], None],
        listener: Listener,
        clock: Clock,
        threads: Threads,
        moments: Moments | None = None,
        tell: Callable[[], None] = lambda: None,
        cadence: Cadence | None = None,
    ) -> None:
        """`holder` is what our store is; `changed` is told of a table that must be decided on again. `tell` is called
        when `missing` has something to say.
        """
        self._holder = holder
        self._life = uuid.uuid4().hex
        self._since = clock.now()
        self._book = book
        self._pools = pools
        self._changed = changed
        self._listener = listener
        self._clock = clock
        self._threads = threads
        self._moments = moments or Moments()
        self._tell = tell
        self._cadence = cadence or Cadence()
        self._places: dict[TableId, _Place] = {}
        self._warnings: dict[TableId, str] = {}
        self._formats = formats
        self._conditions = conditions
        for table in tables:
            self.enter(table)

    def enter(self, table: Table) -> None:
        """Look after the claim of a table from now on, if it is one that is acted on and has a claim."""
        location = self._formats[table.format].claim_location(table) if table.mode is Mode.ACT else None
        writes = None if location is None else self._conditions(location)
        if location is not None and writes is not None:
            self._places[table.id] = _Place(table=table, location=location, writes=writes)
        elif location is not None:
            self._warn(table, "its store is none of which we know how to write on conditions")

    def leave(self, table: TableId) -> None:
        """Look after the claim of a table no longer: the table is gone, and nothing of ours runs on it."""
        self._places.pop(table, None)
        self._warnings.pop(table, None)

    # -- what the control thread asks

    def known_since(self, table: TableId, mark: int) -> bool:
        """Whether `missing` can tell of a look at the table's claim that was begun since `mark`. Where it cannot, that
        look is begun: the claim is taken, or looked at whether it is still ours. It never waits.

        Only for a table that is there, and with a run of ours under way.
        """
        place = self._places.get(table)
        if place is None or self._has_looked(place, mark):
            return True
        if place.taking is None or place.taking.done():
            place.taking_since = self._moments.next()
            place.taking = self._threads.submit(partial(self._look, place, take=True), place=place_of(place.location))
            place.taking.add_done_callback(lambda _: self._tell())
        return self._has_looked(place, mark)

    def missing(self, table: TableId) -> str | None:
        """Return why the table's claim is not ours, as `known_since` has found it; None where all is well.

        Raises TemporaryError where that could not be told.
        """
        place = self._places.get(table)
        if place is None or place.taking is None:
            return None
        try:
            place.taking.result(timeout=0)
        except NoConditionsError as unfit:
            self._do_without(place, unfit)
            return None
        except LakewardenError as trouble:
            if isinstance(place.known, _Ours) and self._is_overdue(place, self._cadence.give_up):
                return f"{self._overdue()}: {trouble}"
            raise
        blocked = self.blocked(table)
        return None if blocked is None else blocked.reason

    @staticmethod
    def _has_looked(place: _Place, mark: int) -> bool:
        return place.taking is not None and place.taking.done() and place.taking_since >= mark

    def blocked(self, table: TableId) -> Blocked | None:
        """Return the block by another daemon that has claimed the table, as far as we know without looking."""
        place = self._places.get(table)
        known = None if place is None else place.known
        if place is None or not isinstance(known, _Foreign):
            return None
        if known.claim is None:
            return Blocked(
                reason=f"claimed by somebody who writes claims of another form: {place.location}",
                remedy="stop the other daemon, or delete the file if it is certainly gone",
            )
        silent_after = format_duration(known.claim.silent_after)
        return Blocked(
            reason=f"claimed by another daemon that shares no store with this one: {known.claim.who}",
            remedy=f"stop one of the two, or let them share a store. If this table is a copy of one that the other "
            f"serves, or the other is gone, nothing renews the claim: it ends by itself {silent_after} after we first "
            f"saw it, or delete {place.location} now",
        )

    def warning(self, table: TableId) -> str | None:
        """Return why no claim keeps another daemon away from the table, where one is needed."""
        return self._warnings.get(table)

    def alive_at(self, table: TableId, executor: str) -> datetime | None:
        """Return when a JVM was last known to carry out a run of ours on the table, on the clock of its storage: by the
        renewals of its claim, the last one of an earlier life of ours included.
        """
        place = self._places.get(table)
        return None if place is None else place.alive.get(executor)

    # -- what keeps them

    def look_again(self, tables: Iterable[TableId]) -> None:
        """Look soon at the claims of tables that were another replica's: they name the JVMs that it had at work."""
        for place in map(self._places.get, tables):
            if place is not None:
                place.looked_at = float("-inf")

    def attend(self) -> None:
        """Begin the looks that are due, and stop what must not go on. Returns at once, but for a killing."""
        for place in list(self._places.values()):
            self._stop_what_must_not_go_on(place)
            if self._is_due(place) and (place.looking is None or place.looking.done()):
                place.looking = self._threads.submit(
                    partial(self._look_in_passing, place), place=place_of(place.location)
                )

    def give_back(self) -> None:
        """Delete what is still ours, within a bounded time. Only after every worker and its JVM are gone."""
        ours = [place for place in self._places.values() if isinstance(place.known, _Ours)]
        gone = [self._threads.submit(partial(self._give_back, one), place=place_of(one.location)) for one in ours]
        wait(gone, timeout=PATIENCE.total_seconds())
        troubles = [one.exception() for one in gone if one.done() and not one.cancelled() and one.exception()]
        late = sum(one.cancel() or not one.done() for one in gone if not one.done())
        for trouble in troubles[:1]:
            log.warning("claims_not_given_back", claims=len(troubles), reason=str(trouble))
        if late:
            log.warning("claims_not_given_back", claims=late, reason="their stores did not answer in time")

    def _give_back(self, place: _Place) -> None:
        with self._locked(place):
            if isinstance(place.known, _Ours):
                place.writes.delete(place.location, version=place.known.version)
            place.known = None

    def _stop_what_must_not_go_on(self, place: _Place) -> None:
        # A run without a step has not had a permit yet, which is when the claim is taken.
        begun = {run.id: run for run in self._runs_on(place) if run.step is not None}
        pools = {name: self._pools[place.table.profile_of(run.service)] for name, run in begun.items()}
        names = set(begun)
        lost = not isinstance(place.known, _Ours) or self._is_overdue(place, self._cadence.give_up)
        for run in names - place.cancelled if lost else ():
            pools[run].cancel(run, self._overdue())
        if names - place.killed and self._is_overdue(place, self._cadence.kill):
            for pool in set(pools.values()):
                pool.evict(self._overdue())
            place.killed = names
        place.cancelled = names if lost else set()
        place.killed &= names

    def _is_overdue(self, place: _Place, by: timedelta) -> bool:
        return self._clock.monotonic() - place.renewed_at >= by.total_seconds()

    def _overdue(self) -> str:
        return f"the claim of its table was lost, or could not be renewed for {format_duration(self._cadence.give_up)}"

    def _is_due(self, place: _Place) -> bool:
        """Whether it is time for a look: often enough for a renewal, and for seeing that another has ended."""
        now = self._clock.monotonic()
        known = place.known
        if place.looked_at < 0:  # whose the claim is now, and what an earlier life of ours has left there
            return True
        if isinstance(known, _Ours):
            runs = self._runs_on(place)
            every = self._cadence.busy if runs else self._cadence.idle
            fits = known.claim.silent_after == self._silence(runs)
            return not fits or now - place.renewed_at >= every.total_seconds()
        if isinstance(known, _Foreign):
            return now - place.looked_at >= self._cadence.foreign.total_seconds()
        return False

    def _runs_on(self, place: _Place) -> list[Run]:
        return [run for run in self._book.under_way() if run.table == place.table.id]

    def _silence(self, runs: Sequence[Run]) -> timedelta:
        return self._cadence.busy_silence if runs else self._cadence.idle_silence

    # -- looking

    def _look_in_passing(self, place: _Place) -> None:
        try:
            self._look(place, take=False)
        except NoConditionsError as unfit:
            self._do_without(place, unfit)
        except LakewardenError as trouble:
            log.warning("claim_trouble", table=place.table.id, reason=str(trouble))

    def _look(self, place: _Place, *, take: bool) -> None:
        """Look at the file, and take or renew the claim where that is due. A claim that is not there is only made to
        `take` it: the table may have been dropped.
        """
        with self._locked(place):
            before, alive, began = place.known, set(place.alive), self._clock.monotonic()
            place.looked_at = began
            try:
                place.known = self._seen(place, began, take=take)
            except FileNotFoundError as gone:
                place.known = None
                raise TemporaryError(f"{place.location} has no folder to be in: the table is gone") from gone
        if isinstance(before, _Foreign) != isinstance(place.known, _Foreign) or not alive.issuperset(place.alive):
            self._changed(place.table.id)
            if isinstance(place.known, _Foreign):
                self._listener.claimed_by_another(place.table, self.blocked(place.table.id))

    def _seen(self, place: _Place, began: float, *, take: bool) -> _Ours | _Foreign | None:
        found = place.writes.versioned(place.location)
        if found is None:
            return self._written(place, began, found) if take else None
        claim = Claim.of(found.content)
        if claim is None or claim.holder != self._holder:
            return self._foreign(place, began, found, claim)
        if claim.life != self._life:
            place.alive.update(dict.fromkeys(claim.executors, found.modified))
            if not take:
                return None  # an earlier life of ours, or another replica that attends the table now
            return self._written(place, began, found)
        runs = self._runs_on(place)
        fits = claim.silent_after == self._silence(runs) and set(_executors(runs)) <= set(claim.executors)
        if fits and not self._is_overdue(place, self._cadence.busy if runs else self._cadence.idle):
            return _Ours(claim=claim, version=found.version)
        return self._written(place, began, found)

    def _foreign(self, place: _Place, began: float, found: Versioned, claim: Claim | None) -> _Ours | _Foreign:
        """Take over what we ourselves have seen to be silent for long enough, on our own monotonic clock."""
        before = place.known
        if not isinstance(before, _Foreign) or before.version != found.version:
            return _Foreign(claim=claim, version=found.version, seen_at=self._clock.monotonic())
        silence = self._cadence.idle_silence if claim is None else claim.silent_after
        if began - before.seen_at < silence.total_seconds():
            return before
        log.warning("claim_taken_over", table=place.table.id, silent_seconds=round(began - before.seen_at))
        return self._written(place, began, found)

    def _written(self, place: _Place, began: float, over: Versioned | None) -> _Ours:
        """Write our claim in place of what was read. Raises TemporaryError where somebody else was faster."""
        runs = self._runs_on(place)
        before = None if over is None else Claim.of(over.content)
        claim = Claim(
            holder=self._holder,
            life=self._life,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=self._since,
            counter=0 if before is None else before.counter + 1,
            silent_after=self._silence(runs),
            executors=_executors(runs),
        )
        if over is None:
            made = place.writes.create(place.location, claim.to_bytes())
        else:
            made = place.writes.replace(place.location, claim.to_bytes(), version=over.version)
        if made is None:
            raise TemporaryError(f"{place.location} was changed by another daemon just now")
        place.renewed_at = began
        place.alive.update(dict.fromkeys(claim.executors, made.modified))
        for forgotten in list(place.alive)[:-_REMEMBERED_EXECUTORS]:
            del place.alive[forgotten]
        return _Ours(claim=claim, version=made.version)

    @contextmanager
    def _locked(self, place: _Place) -> Iterator[None]:
        if not place.lock.acquire(timeout=PATIENCE.total_seconds()):
            raise TemporaryError(f"{place.location} is being read, and its storage does not answer")
        try:
            yield
        finally:
            place.lock.release()

    def _do_without(self, place: _Place, unfit: NoConditionsError) -> None:
        if self._places.pop(place.table.id, None) is not None:
            self._warn(place.table, str(unfit))

    def _warn(self, table: Table, why: str) -> None:
        warning = f"no claim keeps a second daemon with another store away from this table: {why}"
        self._warnings[table.id] = warning
        self._listener.warned(table, warning)


def _executors(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(sorted({run.executor for run in runs if run.executor is not None}))


class ClaimKeeper:
    """The thread that attends to claims, for as long as the bracket is open."""

    def __init__(self, claims: Claims, *, every: timedelta = timedelta(seconds=1)) -> None:
        self._claims = claims
        self._every = every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="claims", daemon=True)

    def __enter__(self) -> ClaimKeeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ending.wait(self._every.total_seconds()):
            try:
                self._claims.attend()
            except Exception:  # the edge of the thread: a claim that nobody renews ends every run
                log.exception("claims_not_attended")
