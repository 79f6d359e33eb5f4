"""Several daemons on one store, in the test's own thread: who is turned lives, who is not is frozen or dead."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Granted, Refused
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, RunId, Service, Step
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.storage import storage_for
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.wiring.daemon import compose
from tests.support.daemon.daemon_harness import COMPACT, START, EventRecorder, HoldingPool
from tests.support.doubles.callers_thread import CallersThread
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.store.memory_store import MemoryStore

LEASE = timedelta(seconds=30)
TABLES = ("orders", "trips", "users", "visits")


class FarStore(MemoryStore):
    """A store that everybody, or one replica's renewals, may be cut off from."""

    cut_off: bool = False
    after_claim: Callable[[], None] = staticmethod(lambda: None)

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        self._reach()
        return super().renew(replica, lease=lease)

    def share(self, replica: ReplicaId, **parts: object) -> frozenset[str]:
        self._reach()
        return super().share(replica, **parts)  # type: ignore[arg-type]

    def join(self, *parts: object, **more: object) -> None:
        self._reach()
        super().join(*parts, **more)  # type: ignore[arg-type]

    def take_lease(self, *parts: object, **more: object) -> Run:
        self._reach()
        run = super().take_lease(*parts, **more)  # type: ignore[arg-type]
        self.after_claim()
        return run

    def _reach(self) -> None:
        if self.cut_off:
            raise TemporaryError("the store does not answer")


class CountingPool(HoldingPool):
    """A pool that notes which run took which step."""

    def __init__(self, taken: list[tuple[RunId, Step]], *, clock: ManualClock) -> None:
        super().__init__(slots=4, clock=clock)
        self._taken = taken

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        if isinstance(permit, Granted):
            self._taken.append((run, step))
        super().answer(run, step, permit)


class Member:
    """One daemon."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.recorded = EventRecorder()
        self.pool = CountingPool(cluster.steps, clock=cluster.clock)
        composed = compose(
            tables=cluster.tables,
            resources=Resources(
                pools={"default": self.pool},
                store=cluster.store,
                clock=cluster.clock,
                listener=self.recorded,
                formats={"fake": FAKE},
                threads=CallersThread(),
                rng=random.Random(0),
            ),
            drain=timedelta(minutes=1),
            lease=LEASE,
            alone=False,
            url=f"http://{name}:8080",
        )
        self.daemon, self.replica_lease, self.status = composed.daemon, composed.replica_lease, composed.status
        self.daemon.start()

    @property
    def owned(self) -> list[str]:
        """The tables that it owns, by its own word."""
        return [s.table.id for s in self.status.tables() if s.owner == self.replica_lease.replica]

    def turn(self) -> None:
        """Let its threads do what is due."""
        self.replica_lease.renew()
        self.replica_lease.watch()
        self.daemon.turn()


class Cluster:
    """Tables, a store and a clock for all; whoever is among `turning` lives."""

    def __init__(self, folder: Path, names: Sequence[str] = TABLES) -> None:
        self.clock = ManualClock(START)
        self.store = FarStore(clock=self.clock)
        self.steps: list[tuple[RunId, Step]] = []
        self.lakes = {TableId(name): FakeTable.create(folder / name, clock=self.clock) for name in names}
        self.tables = [
            Table(id=name, format="fake", location=str(lake.folder), mode=Mode.ACT, policies=COMPACT)
            for name, lake in self.lakes.items()
        ]
        self.turning: list[Member] = []

    def open(self, name: str) -> Member:
        """Start a daemon."""
        member = Member(self, name)
        self.turning.append(member)
        return member

    def freeze(self, member: Member) -> None:
        """Stop turning a daemon, as kill -9 and SIGSTOP do."""
        self.turning.remove(member)

    def wake(self, member: Member) -> None:
        """Let a frozen daemon go on."""
        self.turning.append(member)

    def turn(self) -> None:
        """Let every living daemon turn, and half a second pass."""
        for member in self.turning:
            member.turn()
        self.clock.advance(timedelta(seconds=0.5))

    def until(self, happens: Callable[[], bool], *, within: timedelta = timedelta(minutes=2)) -> timedelta:
        """Turn until something has happened, and return how long it took."""
        began = self.clock.now()
        while not happens():
            assert self.clock.now() - began < within, f"not within {within}"
            self.turn()
        return self.clock.now() - began

    def for_a_while(self, duration: timedelta = timedelta(seconds=30)) -> None:
        """Turn for some time."""
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.turn()

    def until_shared(self) -> None:
        """Turn until every table has one owner, and nobody more than a fair share."""
        fair = -(-len(self.lakes) // len(self.turning))

        def shared() -> bool:
            owned = [table for member in self.turning for table in member.owned]
            assert max(Counter(owned).values(), default=0) <= 1, "two replicas own one table"
            return len(owned) == len(self.lakes) and all(len(m.owned) <= fair for m in self.turning)

        self.until(shared)

    def whose(self, table: str) -> Member:
        """Return who owns a table."""
        (member,) = (member for member in self.turning if table in member.owned)
        return member

    def write(self, table: str, commits: int = 3) -> None:
        """Let a writer commit. No hook is sent."""
        for _ in range(commits):
            self.lakes[TableId(table)].write()

    def completed(self, table: str) -> list[Instant]:
        """Return the completed compactions of a table."""
        registered = next(one for one in self.tables if one.id == table)
        view = FAKE.observe(registered, storage_for(registered.location), None, now=self.clock.now()).view
        return [i for i in view.timeline.instants if i.stands_for is Service.COMPACTION and not i.pending]

    def assert_nothing_ran_twice(self) -> None:
        """Every step was taken once by each run, and no instant was completed by two."""
        assert max(Counter(self.steps).values(), default=0) <= 1
        succeeded = Counter(
            (run.identity, run.instant) for run in self.store.runs(limit=1000) if run.state is RunState.SUCCEEDED
        )
        assert max(succeeded.values(), default=0) <= 1


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return a store and four tables, without a daemon."""
    return Cluster(tmp_path)
