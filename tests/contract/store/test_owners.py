"""What every store promises about the owner of a run: only the owner of the table, and one owner after another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import LEASE, a_replica
from tests.support.values import IDENTITY, NOW, a_run

ONE, TWO = ReplicaId("one"), ReplicaId("two")
TRIPS = "/lake/trips"
Lapse = Callable[[ReplicaId], None]


@pytest.fixture(autouse=True)
def _two_replicas(store: Store) -> None:
    """Return two replicas. The first owns the table."""
    for replica in (ONE, TWO):
        store.join(a_replica(replica), lease=LEASE)
    store.share(ONE, locations=[TRIPS], busy=())


def claimed(store: Store, run: str = "r1", *, owner: ReplicaId = ONE, **news: object) -> Run:
    """Request a run and claim it."""
    return store.take_lease(store.request(a_run(run, **news)).id, owner=owner, at=NOW)


def hand_over(store: Store, lapse: Lapse) -> None:
    """Let the first replica die, and the second one take its table."""
    lapse(ONE)
    assert store.share(TWO, locations=[TRIPS], busy=()) == {TRIPS}


def epoch(store: Store) -> int:
    return store.epoch(identity=str(IDENTITY), service=Service.COMPACTION)


# -- claiming


def test_only_the_owner_of_a_table_claims_its_runs(store: Store) -> None:
    """One process applies all rules about runs beside each other. A second process would not know whether they hold."""
    run = store.request(a_run())

    for replica in (TWO, ReplicaId("nobody")):
        with pytest.raises(SupersededError, match="has not the share of /lake/trips"):
            store.take_lease(run.id, owner=replica, at=NOW)

    assert store.run(run.id) == run
    assert epoch(store) == 0


def test_a_dead_replica_claims_nothing(store: Store, lapse: Lapse) -> None:
    """This holds even while no other replica has taken its tables."""
    run = store.request(a_run())
    lapse(ONE)

    with pytest.raises(SupersededError, match="has ended"):
        store.take_lease(run.id, owner=ONE, at=NOW)

    assert store.run(run.id) == run


def test_an_owner_claims_several_services_of_its_table(store: Store) -> None:
    """The owner alone decides what may run beside what."""
    assert claimed(store, "r1").owner == claimed(store, "r2", service=Service.CLEAN).owner == ONE


def test_a_table_with_a_run_of_another_owner_is_not_begun_on(store: Store, lapse: Lapse) -> None:
    """This holds for every service. The other run is adopted and settled first."""
    old = claimed(store, "r1")
    clean = store.request(a_run("r2", service=Service.CLEAN))
    hand_over(store, lapse)

    with pytest.raises(SupersededError, match="run r1 on the same table belongs to replica one"):
        store.take_lease(clean.id, owner=TWO, at=NOW)

    adopted = store.adopt(old.id, owner=TWO)
    store.end(adopted.id, epoch=adopted.epoch, state=RunState.FAILED, outcome="lost", at=NOW)
    assert store.take_lease(clean.id, owner=TWO, at=NOW).owner == TWO


def test_a_queued_run_waits_for_the_owner_of_the_table(store: Store, lapse: Lapse) -> None:
    """It has no owner, so no replica must adopt it."""
    run = store.request(a_run())
    hand_over(store, lapse)

    assert store.take_lease(run.id, owner=TWO, at=NOW).owner == TWO


# -- adopting


def test_a_run_is_adopted_from_the_dead(store: Store, lapse: Lapse) -> None:
    """It is UNKNOWN under a new, higher epoch. All that is known of it stays."""
    run = claimed(store)
    run = store.progress(run.id, epoch=1, step=Step.EXECUTE, instant="00000010", executor="a JVM")
    hand_over(store, lapse)

    adopted = store.adopt(run.id, owner=TWO)

    assert (adopted.owner, adopted.state, adopted.epoch) == (TWO, RunState.UNKNOWN, 2)
    assert (adopted.step, adopted.instant, adopted.executor) == (Step.EXECUTE, "00000010", "a JVM")
    assert adopted.started_at == run.started_at
    assert store.run(run.id) == adopted
    assert epoch(store) == 2


def test_a_late_result_of_an_old_owner_is_rejected(store: Store, lapse: Lapse) -> None:
    """The old owner was frozen. Its run was adopted before it continued."""
    run = claimed(store)
    hand_over(store, lapse)
    adopted = store.adopt(run.id, owner=TWO)

    with pytest.raises(SupersededError):
        store.progress(run.id, epoch=run.epoch, step=Step.COMMIT)
    with pytest.raises(SupersededError):
        store.end(run.id, epoch=run.epoch, state=RunState.SUCCEEDED, outcome="completed", at=NOW)
    with pytest.raises(SupersededError):
        store.adopt(run.id, owner=ONE)

    assert store.run(run.id) == adopted
    assert not store.renew(ONE, lease=LEASE)


def test_the_living_keep_their_runs(store: Store) -> None:
    """No replica takes a run from an owner with a valid lease, not even from itself."""
    run = claimed(store)

    for replica in (ONE, TWO):
        with pytest.raises(SupersededError, match="the lease of replica one still runs"):
            store.adopt(run.id, owner=replica)

    assert store.run(run.id) == run


def test_only_the_owner_of_a_table_adopts_its_runs(store: Store, lapse: Lapse) -> None:
    """A valid lease alone is not enough."""
    run = claimed(store)
    lapse(ONE)

    with pytest.raises(SupersededError, match="has not the share of /lake/trips"):
        store.adopt(run.id, owner=TWO)

    assert store.run(run.id) == run


def test_the_dead_adopt_nothing(store: Store, lapse: Lapse) -> None:
    """They would begin what they cannot finish."""
    run = claimed(store)
    hand_over(store, lapse)
    lapse(TWO)

    with pytest.raises(SupersededError, match="the lease of replica two has ended"):
        store.adopt(run.id, owner=TWO)

    assert store.run(run.id) == run


def test_what_was_never_begun_or_has_ended_is_not_adopted(store: Store, lapse: Lapse) -> None:
    """A queued run is claimed. An ended run is left alone. A missing run cannot be adopted."""
    ended = claimed(store, "r1")
    store.end(ended.id, epoch=ended.epoch, state=RunState.FAILED, outcome="it broke", at=NOW)
    queued = store.request(a_run("r2"))
    hand_over(store, lapse)

    for run in (ended.id, queued.id, RunId("nobody")):
        with pytest.raises(SupersededError):
            store.adopt(run, owner=TWO)

    assert epoch(store) == 1


def test_a_run_is_adopted_again_when_its_heir_dies(store: Store, lapse: Lapse) -> None:
    """Each owner has an epoch of its own."""
    run = claimed(store)
    hand_over(store, lapse)
    store.adopt(run.id, owner=TWO)
    lapse(TWO)
    three = ReplicaId("three")
    store.join(a_replica(three), lease=LEASE)
    store.share(three, locations=[TRIPS], busy=())

    assert store.adopt(run.id, owner=three).epoch == 3


def test_a_restarted_daemon_adopts_its_own_runs_as_another_replica(store: Store) -> None:
    """If it joins without a lease, it has proved that its former life is over."""
    run = claimed(store)
    store.join(a_replica("one again"), lease=None)
    again = ReplicaId("one again")
    store.share(again, locations=[TRIPS], busy=())

    assert store.adopt(run.id, owner=again).owner == again
