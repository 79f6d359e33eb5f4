"""Several replicas share the tables of one store, and take over from each other."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.hooks.hints import At
from lakewarden.service.model.run import RunState
from tests.unit.replicas.conftest import LEASE, TABLES, House

ALL = list(TABLES)


def test_one_replica_attends_every_table(house: House) -> None:
    """From its start on, without waiting for anybody."""
    assert house.open("one").attended == ALL


def test_a_second_replica_gets_half_of_the_tables(house: House) -> None:
    """The first gives back what is above its share; no table is ever attended by two."""
    one = house.open("one")
    two = house.open("two")
    assert two.attended == []

    house.until_shared()

    assert (len(one.attended), len(two.attended)) == (2, 2)
    assert sorted(one.attended + two.attended) == ALL


def test_each_works_on_its_own_tables_only(house: House) -> None:
    """Every table is compacted once, and by its attendant."""
    house.open("one"), house.open("two")
    house.until_shared()
    whose = {table: house.whose(table).tenure.replica for table in TABLES}
    for table in TABLES:
        house.write(table)

    house.until(lambda: all(house.completed(table) for table in TABLES))
    house.for_a_while()

    assert {run.table: run.owner for run in house.store.runs()} == whose
    assert [run.state for run in house.store.runs()] == [RunState.SUCCEEDED] * 4
    house.assert_nothing_ran_twice()


def test_the_tables_of_a_killed_replica_are_taken_over_after_its_lease(house: House) -> None:
    """Within the lease and a share's period, and not before the lease is over."""
    one, two = house.open("one"), house.open("two")
    house.until_shared()
    left = two.attended
    house.freeze(two)
    for table in left:
        house.write(table)

    took = house.until(lambda: one.attended == ALL)

    assert LEASE * 2 / 3 < took <= LEASE + LEASE / 3 + timedelta(seconds=1)
    house.until(lambda: all(house.completed(table) for table in left))


def test_a_run_of_a_killed_replica_is_taken_over_and_finished_once(house: House) -> None:
    """It was executing: its row is settled by its heir, and its instant completed by a run of the heir."""
    one, two = house.open("one"), house.open("two")
    house.until_shared()
    table = two.attended[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    house.write(table)
    house.until(lambda: two.pool.under_way != [])
    (run,) = house.store.active()

    house.freeze(two)
    house.until(lambda: len(house.completed(table)) == 1, within=timedelta(minutes=5))
    house.for_a_while()

    heir, settled = house.store.runs(table=TableId(table))
    assert (settled.id, settled.state) == (run.id, RunState.FAILED)
    assert (heir.state, heir.owner, heir.instant) == (RunState.SUCCEEDED, one.tenure.replica, run.instant)
    assert heir.epoch > settled.epoch > run.epoch
    assert one.diary.adopted_runs == [run.id]
    house.assert_nothing_ran_twice()


def test_a_queued_run_of_a_killed_replica_goes_on_at_its_heir(house: House) -> None:
    """The very same row."""
    house.open("one")
    two = house.open("two")
    house.until_shared()
    table = two.attended[0]
    two.pool.close()  # no slot is free
    house.write(table)
    house.until(lambda: [run.state for run in house.store.active()] == [RunState.QUEUED])
    (run,) = house.store.active()

    house.freeze(two)
    house.until(lambda: house.completed(table) != [])

    assert [run.id] == [known.id for known in house.store.runs(table=TableId(table))]


def test_a_replica_that_was_frozen_is_refused_and_begins_anew(house: House) -> None:
    """It wakes up with a run that somebody else has finished: its workers are killed, nothing of it is believed, and
    it gets a share again as another replica.
    """
    one, two = house.open("one"), house.open("two")
    house.until_shared()
    table = two.attended[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    house.write(table)
    house.until(lambda: two.pool.under_way != [])
    before = two.tenure.replica

    house.freeze(two)
    house.until(lambda: len(house.completed(table)) == 1, within=timedelta(minutes=5))
    house.wake(two)
    two.daemon.turn()  # its control thread is the first to go on
    assert two.attended == []
    two.pool.release()
    house.until_shared()
    house.for_a_while()

    assert two.tenure.replica != before
    assert (len(one.attended), len(two.attended)) == (2, 2)
    assert len(house.completed(table)) == 1
    assert two.diary.losses != []
    house.assert_nothing_ran_twice()


def test_a_frozen_replica_commits_nothing_when_it_wakes_up_before_its_lease_is_over(house: House) -> None:
    """Between two thirds and the whole of it nobody has taken over yet, and still no permit is given."""
    house.open("one")
    two = house.open("two")
    house.until_shared()
    table = two.attended[0]
    two.pool.hold(Service.COMPACTION, Step.EXECUTE)
    house.write(table)
    house.until(lambda: two.pool.under_way != [])

    house.clock.advance(LEASE * 5 / 6)
    two.pool.release()  # its step has ended, and it asks for leave to commit
    two.daemon.turn()

    assert house.completed(table) == []
    assert not two.tenure.holds()
    assert "compaction commit Granted" not in two.diary.lines


def test_a_run_that_was_claimed_just_before_the_lease_was_lost_is_not_begun(house: House) -> None:
    """The eviction is over when the claim's answer comes: handed out now, the run would have a living worker."""
    one = house.open("one")

    def lose_the_lease() -> None:
        house.store.after_claim = lambda: None
        house.clock.advance(LEASE * 2 / 3)
        one.tenure.watch()

    house.store.after_claim = lose_the_lease
    house.write("trips")
    house.until(lambda: one.diary.losses != [])

    assert one.pool.room().free == one.pool.room().slots
    house.until(lambda: len(house.completed("trips")) == 1)
    house.assert_nothing_ran_twice()


def test_a_replica_that_loses_the_store_kills_its_workers_and_takes_its_own_runs_over(house: House) -> None:
    """The store is away for longer than the lease: afterwards the same daemon is another replica, and adopts."""
    one = house.open("one")
    one.pool.hold(Service.COMPACTION, Step.EXECUTE)
    house.write("trips")
    house.until(lambda: one.pool.under_way != [])
    (run,) = house.store.active()
    before = one.tenure.replica

    house.store.cut_off = True
    house.for_a_while(LEASE)
    assert one.attended == []
    assert one.pool.room().free == 4, "the worker was killed"
    assert "the store does not answer" in " ".join(one.status.health().unready)

    house.store.cut_off = False
    one.pool.release()
    house.until(lambda: len(house.completed("trips")) == 1, within=timedelta(minutes=5))

    assert one.tenure.replica != before
    assert one.attended == ALL
    assert one.status.health().unready == ()
    assert one.diary.adopted_runs == [run.id]
    house.assert_nothing_ran_twice()


def test_a_short_absence_of_the_store_costs_nothing(house: House) -> None:
    """Nobody is killed while the lease can still be renewed in time, and no claim is lost."""
    one = house.open("one")
    before = one.tenure.replica
    house.store.cut_off = True
    house.write("trips")
    house.for_a_while(LEASE / 2)
    assert [run.state for run in house.store.runs()] == [RunState.QUEUED]

    house.store.cut_off = False
    house.until(lambda: [run.state for run in house.store.runs()] == [RunState.SUCCEEDED])

    assert one.tenure.replica == before
    assert one.diary.losses == []


def test_a_pause_reaches_every_replica(house: House) -> None:
    """A person tells one of them; within a share's period the others hold still, and go on after the resume."""
    one, two = house.open("one"), house.open("two")
    house.until_shared()
    one.status.pause(None, reason="lunch")
    house.for_a_while(LEASE / 3)
    house.write(two.attended[0])
    house.for_a_while()
    assert house.store.runs() == []

    one.status.resume(None)

    house.until(lambda: house.completed(two.attended[0]) != [])


def test_a_hook_at_the_wrong_replica_reaches_the_right_one(house: House) -> None:
    """It leaves word in the store, and the attendant finds it within a second, long before its cadence."""
    one, two = house.open("one"), house.open("two")
    house.until_shared()
    table = two.attended[0]
    house.until(
        lambda: all(status.looked_ago is not None for status in two.status.tables() if status.table.id == table)
    )
    house.write(table)

    assert one.status.mark_dirty(At(location=str(house.lakes[TableId(table)].folder))) == (table,)

    took = house.until(lambda: [run.table for run in house.store.runs()] == [table])
    assert took <= timedelta(seconds=3)
    assert [run.owner for run in house.store.runs()] in ([None], [two.tenure.replica])


def test_what_was_seen_of_a_table_is_forgotten_with_its_share(house: House) -> None:
    """What is shown of another's table is only what is configured: an old view would be taken for a new one."""
    one = house.open("one")
    house.until(lambda: all(status.view is not None for status in one.status.tables()))
    two = house.open("two")
    house.until_shared()
    house.for_a_while(LEASE / 3)  # until each has heard of the other's share

    for status in one.status.tables():
        assert (status.view is None) == (status.table.id not in one.attended)
        assert status.attended_by == house.whose(status.table.id).tenure.replica
    assert [replica.tables for replica in two.status.replicas()] == [2, 2]
    assert [replica.here for replica in two.status.replicas()] == [False, True]


def test_a_table_with_a_run_under_way_is_not_given_back(house: House) -> None:
    """A second replica has to wait for it: nothing is moved in the middle of a step."""
    one = house.open("one")
    one.pool.hold(Service.COMPACTION, Step.EXECUTE)
    for table in TABLES:
        house.write(table)
    house.until(lambda: len(one.pool.under_way) == 3)  # the fourth slot is kept for cleans
    busy = {run.table for run in house.store.active() if run.state is RunState.RUNNING}
    two = house.open("two")
    house.for_a_while()
    assert busy <= set(one.attended)

    one.pool.release()
    house.until(lambda: all(house.completed(table) for table in TABLES))
    house.until_shared()

    assert len(two.attended) == 2
    house.assert_nothing_ran_twice()


def test_a_replica_without_tables_is_ready(house: House) -> None:
    """There are more replicas than tables: the fifth waits, and is well."""
    for name in ("one", "two", "three", "four"):
        house.open(name)
    house.until_shared()
    five = house.open("five")
    house.for_a_while()

    assert five.attended == []
    assert five.status.health().unready == ()
