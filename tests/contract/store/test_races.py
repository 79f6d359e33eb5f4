"""Several replicas at once, each with connections of its own. The first one wins, and no replica wins twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
import sqlalchemy as sa

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.view import location_of
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import from_now
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.replicas import ALIVE
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import LEASE, a_replica
from tests.support.store.stores import new_postgres, new_sqlite
from tests.support.values import NOW, a_run

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")
RACERS = 6
FEW_TABLES = [f"/lake/{number}" for number in range(4)]
REPLICAS = [ReplicaId(f"replica {number}") for number in range(RACERS)]


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sequence[Store]]:
    """One database, opened as by so many processes."""
    if request.param == "sqlite":
        new_sqlite(tmp_path / "lakewarden.db").close()
        opened = [open_sqlite(tmp_path / "lakewarden.db") for _ in range(RACERS)]
    else:
        settings = new_postgres(request.getfixturevalue("postgres"))
        opened = [open_postgres(settings) for _ in range(RACERS)]
    yield opened
    for store in opened:
        store.close()


def race(act: Callable[[int], _Answer]) -> list[_Answer]:
    """Return the result of each racer. All of them start at once. Any error fails the test."""
    given, errors, start = list[_Answer](), list[BaseException](), threading.Barrier(RACERS)

    def run(number: int) -> None:
        start.wait()
        try:
            given.append(act(number))
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return given


def patiently(act: Callable[_Asked, _Answer], *asked: _Asked.args, **more: _Asked.kwargs) -> _Answer:
    """Repeat a call when the database asks for it, as every caller does."""
    while True:
        try:
            return act(*asked, **more)
        except TemporaryError:
            time.sleep(0.01)


def won(act: Callable[_Asked, Run], *asked: _Asked.args, **more: _Asked.kwargs) -> Run | None:
    """Return the run that was won. None if another racer was faster."""
    try:
        return patiently(act, *asked, **more)
    except SupersededError:
        return None


def take_ownership_of_all(store: Store, replica: ReplicaId, location: str) -> None:
    """Give a share to a replica directly, as only a broken store would do while another replica lives."""
    with store._write() as connection:
        connection.execute(sa.delete(schema.shares))
        connection.execute(sa.insert(schema.shares).values(location=location, replica=replica))


def test_one_of_many_claims_wins(stores: Sequence[Store]) -> None:
    """The claims of one replica meet, as after a late answer. Each run is begun once, and each epoch is given once."""
    me = REPLICAS[0]
    stores[0].join(a_replica(me), lease=LEASE)
    stores[0].share(me, locations=["/lake/trips"], busy=())
    epochs = list[int]()
    for number in range(8):
        run = stores[0].request(a_run(f"r{number}"))
        answers = race(partial(_claim, stores, run, me))
        (winner,) = [answer for answer in answers if answer is not None]
        epochs.append(winner.epoch)
        stores[0].end(winner.id, epoch=winner.epoch, state=RunState.FAILED, outcome="lost", at=NOW)

    assert epochs == list(range(1, 9))


def _claim(stores: Sequence[Store], run: Run, owner: ReplicaId, racer: int) -> Run | None:
    return won(stores[racer].take_lease, run.id, owner=owner, at=NOW)


def test_one_of_many_heirs_adopts(stores: Sequence[Store]) -> None:
    """One replica takes the dead owner's table. The same one adopts its run, under the next epoch."""
    dead, heirs = REPLICAS[0], REPLICAS[1:]
    for replica in REPLICAS:
        stores[0].join(a_replica(replica), lease=LEASE)
    assert stores[0].share(dead, locations=["/lake/trips"], busy=())
    run = stores[0].take_lease(stores[0].request(a_run()).id, owner=dead, at=NOW).id
    stores[0].leave(dead)

    def inherit(racer: int) -> Run | None:
        if racer == 0:
            return None
        mine = patiently(stores[racer].share, REPLICAS[racer], locations=["/lake/trips"], busy=())
        adopted = won(stores[racer].adopt, run, owner=REPLICAS[racer])
        assert (adopted is not None) == bool(mine)
        return adopted

    (adopted,) = [answer for answer in race(inherit) if answer is not None]

    assert adopted.owner in heirs
    assert adopted.epoch == 2


def test_those_who_ask_at_once_get_one_run(stores: Sequence[Store]) -> None:
    """All of them get the row of the first one."""
    for number in range(8):
        given = race(partial(_request, stores, number))
        assert len({run.id for run in given}) == 1

    assert len(stores[0].active()) == 8


def _request(stores: Sequence[Store], number: int, racer: int) -> Run:
    return patiently(stores[racer].request, a_run(f"r{number}.{racer}", identity=f"/lake/{number}#1"))


def test_a_renewal_and_a_successor_never_both_succeed(stores: Sequence[Store]) -> None:
    """They meet at the end of the lease. Either it is renewed and its runs stay, or it has ended for good."""
    store = stores[0]
    outcomes = set[tuple[bool, bool]]()
    for number in range(15):
        owner, heir = ReplicaId(f"owner {number}"), ReplicaId(f"heir {number}")
        location, identity = f"/lake/{number}", f"/lake/{number}#1"
        store.join(a_replica(owner), lease=LEASE)
        take_ownership_of_all(store, owner, location)
        run = store.take_lease(store.request(a_run(f"r{number}", identity=identity)).id, owner=owner, at=NOW).id
        store.join(a_replica(heir), lease=LEASE)
        take_ownership_of_all(store, heir, location)
        with store._write() as connection:
            ending = sa.update(schema.replicas).where(schema.replicas.c.id == owner)
            connection.execute(ending.values(lease_until=from_now(timedelta(milliseconds=random.randint(0, 30)))))

        def act(racer: int, owner: ReplicaId = owner, heir: ReplicaId = heir, run: RunId = run) -> tuple[str, bool]:
            if racer % 2:
                return "adopted", won(stores[racer].adopt, run, owner=heir) is not None
            time.sleep(random.random() / 50)
            return "renewed", patiently(stores[racer].renew, owner, lease=LEASE)

        answers = race(act)
        adopted = any(answer for what, answer in answers if what == "adopted")
        alive = {replica.id: replica.alive for replica in store.replicas()}[owner]
        assert not (adopted and alive)
        outcomes.add((adopted, alive))
        store.leave(owner)
        store.leave(heir)

    assert outcomes <= {(True, False), (False, True), (False, False)}


@dataclass
class Life:
    """What a daemon does with a store, in one life after another. Each life ends by a kill with its work unfinished."""

    store: Store
    number: int
    rng: random.Random
    lives: int = 0
    working: dict[RunId, Run] = field(default_factory=dict)
    epochs: list[tuple[str, Service, int]] = field(default_factory=list)

    def live(self, *, enough: Callable[[], bool]) -> None:
        """Start one life after another, until there were enough."""
        self.begin()
        while not enough():
            if self.rng.random() < 0.05:
                patiently(self.store.leave, self.me)
                self.begin()
            for location in self.share():
                self.work(f"{location}#1")

    @property
    def me(self) -> ReplicaId:
        return ReplicaId(f"replica {self.number}.{self.lives}")

    def begin(self) -> None:
        self.lives += 1
        self.working = {}
        patiently(self.store.join, a_replica(self.me), lease=LEASE)

    def share(self) -> frozenset[str]:
        busy = {location_of(run.identity) for run in self.working.values()}
        return patiently(self.store.share, self.me, locations=FEW_TABLES, busy=busy)

    def work(self, identity: str) -> None:
        """Ask for a service of a table, claim or adopt its run, and usually end it."""
        service = self.rng.choice(list(Service))
        asked = a_run(f"{self.me}/{time.monotonic_ns()}", identity=identity, service=service)
        run = patiently(self.store.request, asked)
        if run.state is RunState.QUEUED:
            mine = won(self.store.take_lease, run.id, owner=self.me, at=NOW)
        else:
            mine = won(self.store.adopt, run.id, owner=self.me)
        if mine is not None:
            self.working[mine.id] = mine
            self.epochs.append((identity, service, mine.epoch))
        for run in [*self.working.values()]:
            if self.rng.random() < 0.5:
                won(self.store.end, run.id, epoch=run.epoch, state=RunState.FAILED, outcome="", at=NOW)
                del self.working[run.id]


def test_no_two_living_replicas_work_on_one_table(stores: Sequence[Store]) -> None:
    """The replicas join, die, share, claim, adopt and end at random. A table has one living owner, and a lease has no
    epoch twice.
    """
    over, looks, beside = threading.Event(), list[int](), list[object]()
    owners = (
        sa.select(schema.runs.c.identity, schema.runs.c.owner)
        .join(schema.replicas, schema.replicas.c.id == schema.runs.c.owner)
        .where(schema.runs.c.ended_at.is_(None), ALIVE)
        .distinct()
    )

    def watch() -> None:
        while not over.wait(0.002):
            with stores[0]._read() as connection:
                seen = connection.execute(owners).all()
            looks.append(len(seen))
            beside.extend([seen] if len({row.identity for row in seen}) < len(seen) else [])

    watcher = threading.Thread(target=watch)
    watcher.start()
    lives = [Life(store=store, number=number, rng=random.Random(number)) for number, store in enumerate(stores)]
    try:
        race(lambda racer: lives[racer].live(enough=lambda: sum(len(life.epochs) for life in lives) >= 200))
    finally:
        over.set()
        watcher.join()

    epochs = [epoch for life in lives for epoch in life.epochs]
    assert beside == []
    assert len(set(epochs)) == len(epochs)
    assert sum(looks) > 0
