"""The lease of a replica: until when this replica may act, and how its workers end at that moment.

A lease is not a fence. So the replica ends by itself before another may begin (docs/ownership.md). Nothing here waits.
`ReplicaLeaseKeeper` calls `renew` and `watch` from two threads, so a renewal that hangs in a dead connection does not
stop the watch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.executors.contract import Pool
from lakewarden.executors.edge import edge
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.service.events import Listener
from lakewarden.service.model.replica import Replica, ReplicaId

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

RENEWALS_IN_A_LEASE = 6
SAFE_PART_OF_A_LEASE = 2 / 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How long a lease is safe after the request for its renewal, and how often it is renewed."""

    safe: timedelta
    renew_every: timedelta

    @classmethod
    def of(cls, lease: timedelta, *, alone: bool) -> Terms:
        """Return the terms of a lease. A daemon that is alone on its store leaves no time for a successor."""
        return cls(safe=lease if alone else lease * SAFE_PART_OF_A_LEASE, renew_every=lease / RENEWALS_IN_A_LEASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Term:
    """The right of one replica to act until `safe_until`, in monotonic seconds."""

    replica: ReplicaId
    safe_until: float


class ReplicaLease:
    """The right of this daemon to act, as one replica after the other.

    The control thread begins and ends it. `renew` and `watch` have a thread each. Any thread may ask whether the lease
    holds. A lease that is lost stays lost, even if the store answers late: the daemon goes on as another replica.
    """

    def __init__(
        self,
        *,
        store: Store,
        pools: Collection[Pool],
        clock: Clock,
        listener: Listener,
        lease: timedelta,
        alone: bool,
        url: str,
        new_id: Callable[[], ReplicaId],
        unproved: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`alone`: another proof shows that this is the only daemon on the store, and no lease is renewed there.

        `unproved` returns why that proof fails now, or None. Without their daemon the workers live no longer than
        `lease` in this case, too.
        """
        self.terms = Terms.of(lease, alone=alone)
        self._store = store
        self._pools = pools
        self._clock = clock
        self._listener = listener
        self._lease = None if alone else lease
        self._url = url
        self._new_id = new_id
        self._unproved = unproved
        self._replica = ReplicaId("")
        self._term: _Term | None = None
        self._to_evict: str | None = None
        self._changing = threading.Lock()

    @property
    def replica(self) -> ReplicaId:
        """The current or last id of this daemon. Only `begin` changes it."""
        return self._replica

    def holds(self) -> bool:
        """Whether the replica may act now."""
        term = self._term
        return term is not None and self._clock.monotonic() < term.safe_until

    def is_lost(self) -> bool:
        """Whether the daemon must begin as another replica before it may act again."""
        return self._term is None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Give work to the pools inside this `with` block. So no work can follow an eviction.

        Raises TemporaryError if the lease does not hold.
        """
        with self._changing:
            if not self.holds():
                raise TemporaryError(f"replica {self._replica} has lost its lease")
            yield

    # -- for the control thread

    def begin(self) -> bool:
        """Become a replica. Return False while workers of the previous one may still live.

        Raises TemporaryError if the store does not answer, or nothing proves that the store is ours.
        """
        if self._to_evict is not None:
            return False
        why = self._unproved()
        if why is not None:
            raise TemporaryError(why)
        if self._replica:
            self._store.leave(self._replica)  # its workers are gone, so no replica has to wait for its lease
        replica, asked_at = self._new_id(), self._clock.monotonic()
        self._store.join(Replica(id=replica, url=self._url), lease=self._lease)
        self._replica = replica
        self._extend(_Term(replica=replica, safe_until=asked_at + self.terms.safe.total_seconds()))
        self._listener.joined(replica)
        return True

    def end(self) -> None:
        """Leave the store. Only after every worker and its JVM are gone. Raises TemporaryError."""
        self._term = None
        if self._to_evict is None and self._replica:
            self._store.leave(self._replica)

    # -- for the threads that keep it

    def renew(self) -> None:
        """Renew the lease, and tell the workers how long they may live. The store may take any time to answer."""
        term = self._term
        if term is None:
            return
        why = self._unproved()
        if why is not None:
            self._lose(term, why)
            return
        asked_at = self._clock.monotonic()
        try:
            renewed = self._lease is None or self._store.renew(term.replica, lease=self._lease)
        except LakewardenError as error:
            self._listener.renewal_failed(str(error))
            return
        if not renewed:
            self._lose(term, "its lease had ended before it was renewed")
            return
        safe_until = asked_at + self.terms.safe.total_seconds()
        with self._changing:
            if self._term is term and self.holds():
                self._extend(replace(term, safe_until=safe_until))

    def watch(self) -> None:
        """End every worker and its JVM if the lease is over. Returns after they are gone."""
        term = self._term
        if term is not None and not self.holds():
            self._lose(term, f"its lease was not renewed within {self.terms.safe.total_seconds():g} s")
        reason = self._to_evict
        if reason is not None:
            for pool in self._pools:
                pool.evict(reason)
            self._to_evict = None

    def _extend(self, term: _Term) -> None:
        for pool in self._pools:
            pool.extend(term.safe_until)
        self._term = term

    def _lose(self, term: _Term, why: str) -> None:
        with self._changing:
            if self._term is not term:
                return
            reason = f"replica {term.replica} may not act any more: {why}"
            self._to_evict = reason
            self._term = None
        self._listener.lease_lost(reason)


class ReplicaLeaseKeeper:
    """The threads that keep a lease, from `__enter__` to `__exit__`."""

    WATCH_SECONDS = 0.2

    def __init__(self, replica_lease: ReplicaLease) -> None:
        self._replica_lease = replica_lease
        self._over = threading.Event()
        renew_seconds = replica_lease.terms.renew_every.total_seconds()
        self._threads = [
            threading.Thread(target=self._repeat, args=(act, seconds), name=f"lease-{act.__name__}", daemon=True)
            for act, seconds in ((replica_lease.renew, renew_seconds), (replica_lease.watch, self.WATCH_SECONDS))
        ]

    def __enter__(self) -> ReplicaLeaseKeeper:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # a renewal that hangs is not waited for

    def _repeat(self, act: Callable[[], None], seconds: float) -> None:
        while not self._over.wait(seconds):
            with edge("lease_watch_failed", act=act.__name__):
                act()
