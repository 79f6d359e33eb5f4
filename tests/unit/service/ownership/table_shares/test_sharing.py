"""Several replicas share the tables of one store, and take over from each other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.planners.hooks import At
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from tests.unit.service.ownership.table_shares.conftest import LEASE, TABLES, Cluster

ALL = list(TABLES)


def test_each_works_on_its_own_tables_only(cluster: Cluster) -> None:
    """Every table is compacted once, and by its owner."""
    cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    whose = {table: cluster.whose(table).replica_lease.replica for table in TABLES}
    for table in TABLES:
        cluster.write(table)

    cluster.until(lambda: all(cluster.completed(table) for table in TABLES))
    cluster.for_a_while()

    assert {run.table: run.owner for run in cluster.store.runs()} == whose
    assert [run.state for run in cluster.store.runs()] == [RunState.SUCCEEDED] * 4
    cluster.assert_nothing_ran_twice()


@pytest.mark.parametrize("seconds", [0, 3, 6, 9], ids=lambda seconds: f"{seconds} s after a sharing")
def test_the_tables_of_a_killed_replica_are_taken_over_when_its_lease_ends(cluster: Cluster, seconds: int) -> None:
    """Not before its end, and within two seconds after it. The others share then, whenever they shared last."""
    one, two = cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    cluster.for_a_while(timedelta(seconds=seconds))
    left = two.owned
    cluster.freeze(two)
    for table in left:
        cluster.write(table)

    took = cluster.until(lambda: one.owned == ALL)

    assert LEASE - timedelta(seconds=1) <= took <= LEASE + timedelta(seconds=2)
    cluster.until(lambda: all(cluster.completed(table) for table in left))


def test_a_run_of_a_killed_replica_is_taken_over_and_finished_once(cluster: Cluster) -> None:
    """It was executing: its row is settled by its heir, and its instant completed by a run of the heir."""
    one, two = cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    table = two.owned[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    cluster.write(table)
    cluster.until(lambda: two.pool.under_way != [])
    (run,) = cluster.store.active()

    cluster.freeze(two)
    cluster.until(lambda: len(cluster.completed(table)) == 1, within=timedelta(minutes=5))
    cluster.for_a_while()

    heir, settled = cluster.store.runs(table=TableId(table))
    assert (settled.id, settled.state) == (run.id, RunState.FAILED)
    assert (heir.state, heir.owner, heir.instant) == (RunState.SUCCEEDED, one.replica_lease.replica, run.instant)
    assert heir.epoch > settled.epoch > run.epoch
    assert one.recorded.adopted_runs == [run.id]
    cluster.assert_nothing_ran_twice()


def test_a_queued_run_of_a_killed_replica_goes_on_at_its_heir(cluster: Cluster) -> None:
    """The very same row."""
    cluster.open("one")
    two = cluster.open("two")
    cluster.until_shared()
    table = two.owned[0]
    two.pool.close()  # no slot is free
    cluster.write(table)
    cluster.until(lambda: [run.state for run in cluster.store.active()] == [RunState.QUEUED])
    (run,) = cluster.store.active()

    cluster.freeze(two)
    cluster.until(lambda: cluster.completed(table) != [])

    assert [run.id] == [known.id for known in cluster.store.runs(table=TableId(table))]


def test_a_replica_that_was_frozen_is_refused_and_begins_anew(cluster: Cluster) -> None:
    """It wakes up with a run that somebody else has finished: its workers are killed, nothing of it is believed, and
    it gets a share again as another replica.
    """
    one, two = cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    table = two.owned[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    cluster.write(table)
    cluster.until(lambda: two.pool.under_way != [])
    before = two.replica_lease.replica

    cluster.freeze(two)
    cluster.until(lambda: len(cluster.completed(table)) == 1, within=timedelta(minutes=5))
    cluster.wake(two)
    two.daemon.turn()  # its control thread is the first to go on
    assert two.owned == []
    two.pool.release()
    cluster.until_shared()
    cluster.for_a_while()

    assert two.replica_lease.replica != before
    assert (len(one.owned), len(two.owned)) == (2, 2)
    assert len(cluster.completed(table)) == 1
    assert two.recorded.losses != []
    cluster.assert_nothing_ran_twice()


def test_a_frozen_replica_commits_nothing_when_it_wakes_up_before_its_lease_is_over(cluster: Cluster) -> None:
    """Between two thirds and the whole of it nobody has taken over yet, and still no permit is given."""
    cluster.open("one")
    two = cluster.open("two")
    cluster.until_shared()
    table = two.owned[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    cluster.write(table)
    cluster.until(lambda: two.pool.under_way != [])

    cluster.clock.advance(LEASE * 5 / 6)
    two.pool.release()  # its step has ended, and it asks for leave to commit
    two.daemon.turn()

    assert cluster.completed(table) == []
    assert not two.replica_lease.holds()
    assert "compaction commit Granted" not in two.recorded.lines


def test_a_run_that_was_claimed_just_before_the_lease_was_lost_is_not_begun(cluster: Cluster) -> None:
    """The eviction is over when the claim's answer comes: handed out now, the run would have a living worker."""
    one = cluster.open("one")

    def lose_the_lease() -> None:
        cluster.store.after_claim = lambda: None
        cluster.clock.advance(LEASE * 2 / 3)
        one.replica_lease.watch()

    cluster.store.after_claim = lose_the_lease
    cluster.write("trips")
    cluster.until(lambda: one.recorded.losses != [])

    assert one.pool.capacity().free == one.pool.capacity().slots
    cluster.until(lambda: len(cluster.completed("trips")) == 1)
    cluster.assert_nothing_ran_twice()


def test_a_replica_that_loses_the_store_kills_its_workers_and_takes_its_own_runs_over(cluster: Cluster) -> None:
    """The store is away for longer than the lease: afterwards the same daemon is another replica, and adopts."""
    one = cluster.open("one")
    one.pool.hold(Service.COMPACTION, Step.EXECUTE)
    cluster.write("trips")
    cluster.until(lambda: one.pool.under_way != [])
    (run,) = cluster.store.active()
    before = one.replica_lease.replica

    cluster.store.cut_off = True
    cluster.for_a_while(LEASE)
    assert one.owned == []
    assert one.pool.capacity().free == 4, "the worker was killed"
    assert "the store does not answer" in " ".join(one.status.health().unready)

    cluster.store.cut_off = False
    one.pool.release()
    cluster.until(lambda: len(cluster.completed("trips")) == 1, within=timedelta(minutes=5))

    assert one.replica_lease.replica != before
    assert one.owned == ALL
    assert one.status.health().unready == ()
    assert one.recorded.adopted_runs == [run.id]
    cluster.assert_nothing_ran_twice()


def test_a_short_absence_of_the_store_costs_nothing(cluster: Cluster) -> None:
    """Nobody is killed while the lease can still be renewed in time, and no claim is lost."""
    one = cluster.open("one")
    before = one.replica_lease.replica
    cluster.store.cut_off = True
    cluster.write("trips")
    cluster.for_a_while(LEASE / 2)
    assert [run.state for run in cluster.store.runs()] == [RunState.QUEUED]

    cluster.store.cut_off = False
    cluster.until(lambda: [run.state for run in cluster.store.runs()] == [RunState.SUCCEEDED])

    assert one.replica_lease.replica == before
    assert one.recorded.losses == []


def test_a_pause_reaches_every_replica(cluster: Cluster) -> None:
    """A person tells one of them; within a share's period the others hold still, and go on after the resume."""
    one, two = cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    one.status.commands.pause(None, reason="lunch")
    cluster.for_a_while(LEASE / 3)
    cluster.write(two.owned[0])
    cluster.for_a_while()
    assert cluster.store.runs() == []

    one.status.commands.resume(None)

    cluster.until(lambda: cluster.completed(two.owned[0]) != [])


def test_a_hook_at_the_wrong_replica_reaches_the_right_one(cluster: Cluster) -> None:
    """It leaves word in the store, and the owner finds it within a second, long before its cadence."""
    one, two = cluster.open("one"), cluster.open("two")
    cluster.until_shared()
    table = two.owned[0]
    cluster.until(lambda: two.status.polled_ago(TableId(table)) is not None)
    cluster.write(table)

    assert one.status.mark_dirty(At(location=str(cluster.lakes[TableId(table)].folder))) == (table,)

    took = cluster.until(lambda: [run.table for run in cluster.store.runs()] == [table])
    assert took <= timedelta(seconds=3)
    assert [run.owner for run in cluster.store.runs()] in ([None], [two.replica_lease.replica])


def test_what_was_seen_of_a_table_is_forgotten_with_its_share(cluster: Cluster) -> None:
    """What is shown of another's table is only what is configured: an old view would be taken for a new one."""
    one = cluster.open("one")
    cluster.until(lambda: all(status.view is not None for status in one.status.tables()))
    two = cluster.open("two")
    cluster.until_shared()
    cluster.for_a_while(LEASE / 3)  # until each has heard of the other's share

    for status in one.status.tables():
        assert (status.view is None) == (status.table.id not in one.owned)
        assert status.owner == cluster.whose(status.table.id).replica_lease.replica
    assert [replica.tables for replica in two.status.replicas()] == [2, 2]
    assert [replica.here for replica in two.status.replicas()] == [False, True]


def test_a_table_with_a_run_under_way_is_not_given_back(cluster: Cluster) -> None:
    """A second replica has to wait for it: nothing is moved in the middle of a step."""
    one = cluster.open("one")
    one.pool.hold(Service.COMPACTION, Step.EXECUTE)
    for table in TABLES:
        cluster.write(table)
    cluster.until(lambda: len(one.pool.under_way) == 3)  # the fourth slot is kept for cleans
    busy = {run.table for run in cluster.store.active() if run.state is RunState.RUNNING}
    two = cluster.open("two")
    cluster.for_a_while()
    assert busy <= set(one.owned)

    one.pool.release()
    cluster.until(lambda: all(cluster.completed(table) for table in TABLES))
    cluster.until_shared()

    assert len(two.owned) == 2
    cluster.assert_nothing_ran_twice()


def test_a_replica_without_tables_is_ready(cluster: Cluster) -> None:
    """There are more replicas than tables: the fifth waits, and is well."""
    for name in ("one", "two", "three", "four"):
        cluster.open(name)
    cluster.until_shared()
    five = cluster.open("five")
    cluster.for_a_while()

    assert five.owned == []
    assert five.status.health().unready == ()
