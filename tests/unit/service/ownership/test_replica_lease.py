"""The lease of a replica: a replica that could not renew its lease ends by itself, before anybody else may begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.events import Listener
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.ownership.replica_lease import ReplicaLease, ReplicaLeaseKeeper
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore

LEASE = timedelta(seconds=30)
TIMEOUT = 10.0


class SlowStore(MemoryStore):
    """A store whose renewals take time, fail, or come too late, as a test says."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.meanwhile: Callable[[], None] = lambda: None

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        renewed = super().renew(replica, lease=lease)
        self.meanwhile()
        return renewed


class WatchedPool(FakePool):
    """A pool that notes until when it may live, and why it was evicted."""

    def __init__(self) -> None:
        super().__init__()
        self.until = 0.0
        self.evictions: list[str] = []
        self.evicting: Callable[[], None] = lambda: None
        self.start(lambda _: None)

    def extend(self, until: float) -> None:
        self.until = until

    def evict(self, reason: str) -> None:
        self.evicting()
        self.evictions.append(reason)


class Told(Listener):
    """Keeps what a lease tells."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.losses: list[str] = []
        self.lost = threading.Event()

    def renewal_failed(self, reason: str) -> None:
        self.failures.append(reason)

    def lease_lost(self, reason: str) -> None:
        self.losses.append(reason)
        self.lost.set()


class Office:
    """A lease with everything around it; its replicas are called r1, r2, ..."""

    def __init__(self, *, alone: bool = False) -> None:
        self.clock = ManualClock()
        self.store = SlowStore(self.clock)
        self.pool = WatchedPool()
        self.told = Told()
        self._lives = 0
        self.replica_lease = ReplicaLease(
            store=self.store,
            pools=[self.pool],
            clock=self.clock,
            listener=self.told,
            lease=LEASE,
            alone=alone,
            url="http://here",
            new_id=self._next_id,
        )

    def _next_id(self) -> ReplicaId:
        self._lives += 1
        return ReplicaId(f"r{self._lives}")

    def after(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def alive(self) -> list[str]:
        return [replica.id for replica in self.store.replicas() if replica.alive]


@pytest.fixture
def office() -> Office:
    office = Office()
    assert office.replica_lease.begin()
    return office


def _away() -> None:
    raise TemporaryError("the store does not answer")


def test_it_holds_for_two_thirds_of_the_lease_and_no_longer(office: Office) -> None:
    """The last third belongs to the killing of the workers: nobody can have adopted anything yet."""
    office.after(19.9)
    assert office.replica_lease.holds()

    office.after(0.1)
    assert not office.replica_lease.holds()
    assert office.alive() == ["r1"]


def test_it_counts_from_before_the_renewal_was_asked_for(office: Office) -> None:
    """The store may have noted it at any moment between the question and the answer."""
    office.after(5)
    office.store.meanwhile = lambda: office.after(4)
    office.replica_lease.renew()

    assert office.pool.until == 5 + 20
    assert office.told.failures == []


def test_each_renewal_lets_the_workers_live_as_long_as_the_lease(office: Office) -> None:
    """They are told the moment itself, so that they can end without their daemon."""
    assert office.pool.until == 20

    office.after(5)
    office.replica_lease.renew()

    assert office.pool.until == 25
    office.after(19.9)
    assert office.replica_lease.holds()


def test_workers_are_killed_when_the_lease_could_not_be_renewed_in_time(office: Office) -> None:
    """Renewals that fail are tried again until then, and nothing is killed before."""
    office.store.meanwhile = _away
    for _ in range(3):
        office.after(6)
        office.replica_lease.renew()
        office.replica_lease.watch()
    assert office.replica_lease.holds()
    assert office.pool.evictions == []
    assert office.told.failures == ["the store does not answer"] * 3

    office.after(2)
    office.replica_lease.watch()

    assert office.pool.evictions == ["replica r1 may not act any more: its lease was not renewed within 20 s"]
    assert office.told.losses == office.pool.evictions


def test_a_renewal_that_comes_too_late_brings_nothing_back(office: Office) -> None:
    """The answer says yes, and the workers are killed all the same: they have ended by themselves already."""
    office.after(5)
    office.store.meanwhile = lambda: office.after(15)
    office.replica_lease.renew()

    assert not office.replica_lease.holds()
    assert office.pool.until == 20
    office.replica_lease.watch()
    assert len(office.pool.evictions) == 1


def test_a_lease_that_had_ended_ends_the_lease_at_once(office: Office) -> None:
    """The store is the one that knows: a daemon that was frozen asks, and learns that it is dead."""
    office.store.leave(ReplicaId("r1"))
    office.replica_lease.renew()
    assert not office.replica_lease.holds()

    office.replica_lease.watch()

    assert office.pool.evictions == ["replica r1 may not act any more: its lease had ended before it was renewed"]


def test_it_begins_anew_as_another_replica_and_leaves_as_the_one_before(office: Office) -> None:
    """What the old one left can be taken over at once: its workers are gone."""
    office.after(20)
    office.replica_lease.watch()
    assert office.replica_lease.is_lost()

    assert office.replica_lease.begin()

    assert (office.replica_lease.replica, office.replica_lease.holds(), office.pool.until) == ("r2", True, 40)
    assert office.alive() == ["r2"]


def test_it_does_not_begin_anew_before_every_worker_is_gone(office: Office) -> None:
    """Another replica, which may be this daemon itself, would start beside a living JVM."""
    begun: list[bool] = []
    office.after(20)
    office.pool.evicting = lambda: begun.append(office.replica_lease.begin())

    office.replica_lease.watch()

    assert begun == [False]
    assert office.alive() == ["r1"]
    assert office.replica_lease.begin()


def test_an_eviction_that_fails_is_tried_again(office: Office) -> None:
    """Nothing is begun until one has come to its end."""

    def fail() -> None:
        office.pool.evicting = lambda: None
        raise OSError("no such process")

    office.pool.evicting = fail
    office.after(20)
    with pytest.raises(OSError, match="no such process"):
        office.replica_lease.watch()
    assert not office.replica_lease.begin()

    office.replica_lease.watch()

    assert office.replica_lease.begin()


def test_a_late_renewal_of_the_replica_before_is_not_the_new_ones(office: Office) -> None:
    """A renewal hung in a dead connection while the daemon went on as another replica."""

    def go_on_as_another() -> None:
        office.after(20)
        office.replica_lease.watch()
        assert office.replica_lease.begin()

    office.store.meanwhile = go_on_as_another
    office.replica_lease.renew()

    assert office.pool.until == 40
    office.after(19.9)
    assert office.replica_lease.holds()


def test_no_work_slips_in_behind_an_eviction(office: Office) -> None:
    """Between the loss and the new beginning nothing is handed to a pool; what was handed before is evicted."""
    with office.replica_lease.held():
        pass
    office.after(20)

    with pytest.raises(TemporaryError, match="replica r1 has lost its lease"), office.replica_lease.held():
        pytest.fail("work was handed out")


def test_a_daemon_that_is_alone_asks_nobody_and_lives_as_long_without_its_daemon() -> None:
    """On SQLite the file lock proves it; the workers still end when they hear nothing for the length of a lease."""
    office = Office(alone=True)
    office.store.meanwhile = _away
    office.replica_lease.begin()
    assert office.pool.until == 30

    office.after(5)
    office.replica_lease.renew()

    assert office.pool.until == 35
    office.after(30)
    office.replica_lease.watch()
    assert len(office.pool.evictions) == 1


def test_it_leaves_the_store_at_the_end(office: Office) -> None:
    """Others need not wait for the lease."""
    office.replica_lease.end()

    assert office.alive() == []
    assert not office.replica_lease.holds()


def test_it_does_not_leave_while_workers_may_live(office: Office) -> None:
    """The lease ends by itself, later than they do."""
    office.pool.evicting = _away
    office.after(20)
    with pytest.raises(TemporaryError):
        office.replica_lease.watch()

    office.replica_lease.end()

    assert office.alive() == ["r1"]


@pytest.mark.timeout(30)
def test_a_renewal_that_hangs_does_not_stop_the_watch(office: Office) -> None:
    """A dead TCP connection holds one thread, and the other one kills the workers."""
    hung, released = threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        released.wait(TIMEOUT)

    office.store.meanwhile = hang
    office.replica_lease.terms = type(office.replica_lease.terms)(
        safe=office.replica_lease.terms.safe, renew_every=timedelta(milliseconds=1)
    )
    with ReplicaLeaseKeeper(office.replica_lease):
        assert hung.wait(TIMEOUT)
        office.after(20)
        assert office.told.lost.wait(TIMEOUT)
        released.set()


def test_a_daemon_that_is_not_proved_to_be_the_only_one_ends_its_workers_and_does_not_begin_again() -> None:
    """Its data folder was deleted under it: another daemon may have the new one, and act on the same tables."""
    why: list[str] = []
    clock, pool, told = ManualClock(), WatchedPool(), Told()
    replica_lease = ReplicaLease(
        store=MemoryStore(clock=clock),
        pools=[pool],
        clock=clock,
        listener=told,
        lease=LEASE,
        alone=True,
        url="",
        new_id=lambda: ReplicaId("one"),
        unproved=lambda: why[0] if why else None,
    )
    assert replica_lease.begin()
    replica_lease.renew()
    assert replica_lease.holds()

    why.append("data_dir was deleted")
    replica_lease.renew()
    replica_lease.watch()

    assert not replica_lease.holds()
    assert len(pool.evictions) == 1
    assert "data_dir was deleted" in pool.evictions[0]
    with pytest.raises(TemporaryError, match="data_dir was deleted"):
        replica_lease.begin()
