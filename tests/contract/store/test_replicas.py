"""What every store promises several daemons: leases that end for good, and one owner for each table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.service.model.replica import ReplicaId as Id
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import LEASE, a_replica
from tests.support.values import NOW, a_run

ONE, TWO, THREE = Id("one"), Id("two"), Id("three")
TABLES = [f"/lake/{number}" for number in range(10)]
LONG_AFTER = datetime(9000, 1, 1, tzinfo=UTC)
Lapse = Callable[[Id], None]


def join(store: Store, *replicas: Id) -> None:
    """Let replicas join, each with a lease."""
    for replica in replicas:
        store.join(a_replica(replica), lease=LEASE)


def share(store: Store, replica: Id, *, tables: list[str] = TABLES, busy: tuple[str, ...] = ()) -> list[str]:
    """Return a replica's share, in order."""
    return sorted(store.share(replica, locations=tables, busy=busy))


def living(store: Store) -> dict[str, bool]:
    """Return the ids of the replicas, and which of them live."""
    return {replica.id: replica.alive for replica in store.replicas()}


# -- identity and leases


def test_a_store_is_always_itself_and_no_other(store: Store, tmp_path: Path) -> None:
    """Claims beside the tables are held in its name. Two stores must never be one holder."""
    assert store.identity() == store.identity() != open_sqlite(tmp_path / "other.db").identity()


def test_a_replica_lives_from_its_joining_until_it_leaves(store: Store) -> None:
    """The other replicas know it, and its address, also afterwards."""
    join(store, ONE, TWO)
    assert list(store.replicas()) == [a_replica(ONE), a_replica(TWO)]

    store.leave(ONE)

    assert living(store) == {ONE: False, TWO: True}


def test_a_lease_lasts_as_long_as_it_was_given_for(store: Store) -> None:
    """A lease without length ends at once. The length counts from now, in seconds."""
    store.join(a_replica(ONE), lease=timedelta())
    store.join(a_replica(TWO), lease=timedelta(seconds=30))
    store.join(a_replica(THREE), lease=timedelta(seconds=30))

    assert store.renew(THREE, lease=timedelta())

    assert living(store) == {ONE: False, TWO: True, THREE: False}


def test_a_store_says_when_a_lease_ends(store: Store, lapse: Lapse) -> None:
    """The other replicas share then. A renewal moves the moment. A dead replica, and a lease without end, have none."""
    store.join(a_replica(THREE), lease=None)
    store.join(a_replica(ONE), lease=timedelta(seconds=30))
    store.join(a_replica(TWO), lease=timedelta(seconds=30))
    store.renew(TWO, lease=timedelta(hours=1))
    of = {replica.id: replica.lapses_in for replica in store.replicas()}
    assert of[THREE] is None
    assert timedelta() < (of[ONE] or timedelta()) <= timedelta(seconds=30)
    assert timedelta(seconds=30) < (of[TWO] or timedelta()) <= timedelta(hours=1)

    lapse(ONE)

    assert next(replica for replica in store.replicas() if replica.id == ONE).lapses_in is None


def test_a_lease_that_has_ended_is_not_brought_back(store: Store, lapse: Lapse) -> None:
    """Neither a renewal nor a second joining helps. Other replicas may have adopted its runs already."""
    join(store, ONE, TWO)
    lapse(ONE)
    store.leave(TWO)

    for replica in (ONE, TWO, THREE):
        assert not store.renew(replica, lease=LEASE)
    join(store, ONE, TWO)

    assert living(store) == {ONE: False, TWO: False}


def test_a_joining_that_is_repeated_changes_nothing(store: Store) -> None:
    """The answer of the first joining may have been lost."""
    join(store, ONE)
    store.share(ONE, locations=TABLES, busy=())

    join(store, ONE)

    assert living(store) == {ONE: True}
    assert len(store.shares()) == len(TABLES)


def test_a_replica_that_joins_without_a_lease_has_outlived_all_others(store: Store) -> None:
    """It has proved that it is alone. The other replicas own nothing any more, and its own life has no end."""
    join(store, ONE)
    share(store, ONE)

    store.join(a_replica(TWO), lease=None)

    assert living(store) == {ONE: False, TWO: True}
    assert store.shares() == {}
    assert share(store, TWO) == TABLES
    assert store.renew(TWO, lease=timedelta())
    assert living(store) == {ONE: False, TWO: True}


# -- shares


def test_replicas_come_to_an_even_share_step_by_step(store: Store) -> None:
    """A replica with too many tables gives some back first. No table ever has two owners."""
    join(store, ONE)
    share(store, ONE)
    join(store, TWO, THREE)

    assert share(store, TWO) == []
    assert share(store, ONE) == TABLES[:4]
    assert share(store, TWO) == TABLES[4:8]
    assert share(store, THREE) == TABLES[8:]
    assert [len(share(store, replica)) for replica in (ONE, TWO, THREE)] == [4, 4, 2]
    assert store.shares() == {
        **dict.fromkeys(TABLES[:4], ONE),
        **dict.fromkeys(TABLES[4:8], TWO),
        **dict.fromkeys(TABLES[8:], THREE),
    }


def test_a_busy_table_is_not_given_back(store: Store) -> None:
    """Its run ends with its owner. Idle tables are given back, and the busy one counts as a part of the share."""
    busy = ("/lake/4", "/lake/1", "/lake/0", "/lake/3")
    join(store, ONE)
    share(store, ONE, tables=TABLES[:5])
    join(store, TWO)

    assert share(store, ONE, tables=TABLES[:5], busy=busy) == ["/lake/0", "/lake/1", "/lake/3", "/lake/4"]
    assert share(store, TWO, tables=TABLES[:5]) == ["/lake/2"]


def test_the_tables_of_the_dead_are_taken_over(store: Store, lapse: Lapse) -> None:
    """The living replicas take them, up to a fair share of all tables. A run does not keep a table with a dead
    owner.
    """
    join(store, ONE, TWO, THREE)
    for replica in (ONE, TWO, THREE):
        share(store, replica)

    lapse(ONE)

    assert ONE not in store.shares().values()
    assert share(store, TWO) == sorted([*TABLES[4:8], TABLES[0]])
    assert share(store, THREE) == sorted([*TABLES[1:4], *TABLES[8:]])


def test_a_dead_replica_has_nothing_and_is_given_nothing(store: Store, lapse: Lapse) -> None:
    """The same holds for one that never joined."""
    join(store, ONE)
    share(store, ONE)
    lapse(ONE)

    for replica in (ONE, TWO):
        assert share(store, replica, busy=("/lake/0",)) == []
    assert store.shares() == {}


def test_leaving_gives_the_shares_back_at_once(store: Store) -> None:
    """The next owner need not wait for the end of the lease."""
    join(store, ONE, TWO)
    share(store, ONE)
    store.leave(ONE)

    assert store.shares() == {}
    assert share(store, TWO) == TABLES


def test_a_table_that_is_no_longer_known_is_given_back(store: Store) -> None:
    """If it is busy, it is given back after that."""
    join(store, ONE)
    share(store, ONE)

    assert share(store, ONE, tables=["/lake/7"], busy=("/lake/3",)) == ["/lake/3", "/lake/7"]
    assert share(store, ONE, tables=["/lake/7"]) == ["/lake/7"]


def test_a_table_that_only_one_replica_knows_is_owned_by_it(store: Store) -> None:
    """The tables of the others count for the fair share, even if it does not know them."""
    join(store, ONE, TWO)
    share(store, ONE, tables=TABLES[:8])

    assert share(store, TWO, tables=["/lake/8", "/lake/9"]) == ["/lake/8", "/lake/9"]
    assert share(store, ONE, tables=TABLES[:8]) == TABLES[:5]


# -- reports of changes


def test_word_of_a_change_reaches_the_owner_of_the_table(store: Store) -> None:
    """It arrives once, however often it was left. A report for another owner, or for a table without one, waits."""
    join(store, ONE, TWO)
    share(store, ONE, tables=TABLES[:2])
    share(store, TWO, tables=TABLES[:2])

    store.mark_dirty([TABLES[0], TABLES[1], TABLES[5]])
    store.mark_dirty([TABLES[0]])
    store.mark_dirty([])

    assert store.take_dirty(ONE) == {TABLES[0]}
    assert store.take_dirty(ONE) == frozenset()
    store.leave(ONE)
    share(store, TWO)
    assert store.take_dirty(TWO) == {TABLES[1], TABLES[5]}


def test_the_dead_take_no_word_with_them(store: Store, lapse: Lapse) -> None:
    """A frozen replica that continues must not take the reports of its successor."""
    join(store, ONE)
    share(store, ONE)
    store.mark_dirty(TABLES[:1])
    lapse(ONE)

    assert store.take_dirty(ONE) == frozenset()

    join(store, TWO)
    share(store, TWO)
    assert store.take_dirty(TWO) == {TABLES[0]}


# -- forgetting


def forget(store: Store, *, before: datetime) -> None:
    """Forget what is older."""
    assert sum(store.forget(registered={}, at=before, keep=timedelta())) == 0


def test_dead_replicas_are_forgotten_when_nothing_of_theirs_is_left(store: Store, lapse: Lapse) -> None:
    """A living replica stays. A dead one stays until all its runs are adopted."""
    join(store, ONE, TWO, THREE)
    share(store, ONE, tables=["/lake/trips"])
    run = store.take_lease(store.request(a_run("r1")).id, owner=ONE, at=NOW)
    lapse(ONE)
    store.leave(TWO)

    forget(store, before=datetime(1999, 1, 1, tzinfo=UTC))
    assert living(store) == {ONE: False, TWO: False, THREE: True}

    forget(store, before=LONG_AFTER)
    assert living(store) == {ONE: False, THREE: True}

    store.end(run.id, epoch=run.epoch, state=RunState.FAILED, outcome="lost", at=NOW)
    forget(store, before=LONG_AFTER)
    assert living(store) == {THREE: True}


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
def test_every_table_is_owned_by_exactly_one(store: Store, replicas: int) -> None:
    """For any number of replicas, no table is left over and no share is above the fair one."""
    ids = [Id(f"replica {number}") for number in range(replicas)]
    join(store, *ids)

    for _ in range(2):
        had = [share(store, replica) for replica in ids]

    assert sorted(table for tables in had for table in tables) == TABLES
    assert max(map(len, had)) == -(-len(TABLES) // replicas)
