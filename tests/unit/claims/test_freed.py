"""An instant whose JVM is proved dead is taken up at once; any other waits for its heartbeat to run out."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Step
from lakewarden.executors.fake_pool import FakePool
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.formats.fake.layout import WINDOW
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import ConditionalWrites, Versioned
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.service.model.run import RunState
from lakewarden.service.ownership.claim_file import Claim
from tests.support.road import TRIPS, HoldingPool, Road, RoadClock


def _executor(*, dead: bool) -> str:
    """Return a process that runs, this one, or one with its id that ended before this one began."""
    living = ProcessIdentity.of(os.getpid())
    if living is None:
        pytest.skip("this system does not tell of its processes")
    return (replace(living, started=0) if dead else living).to_text()


class ClockedConditions(LocalConditions):
    """A storage whose clock is the test's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_at = clock.now()

    def create(self, location: str, content: bytes) -> Versioned | None:
        return self._dated(super().create(location, content))

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        return self._dated(super().replace(location, content, version=version))

    def versioned(self, location: str) -> Versioned | None:
        found = super().versioned(location)
        return None if found is None else replace(found, modified=self._written_at)

    def _dated(self, made: Versioned | None) -> Versioned | None:
        if made is None:
            return None
        self._written_at = self._clock.now()
        return replace(made, modified=self._written_at)


class ClockedStorages(Storages):
    """Storages whose clock is the test's."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._writes = ClockedConditions(clock)

    def conditions(self, location: str) -> ConditionalWrites | None:
        return self._writes


class TellingPool(FakePool):
    """A fake pool that remembers what it was given, and whose first run dies once it has executed its plan."""

    def __init__(self, *, clock: Clock, executor: str | None, dies: bool = True) -> None:
        super().__init__(slots=4, clock=clock, executor=executor)
        self._dies = dies
        self.given: list[Assignment] = []

    def submit(self, assignment: Assignment) -> None:
        self.given.append(assignment)
        super().submit(assignment)
        if self._dies and len(self.given) == 1:
            self.kill(assignment.run, after=Step.EXECUTE)


def _killed(folder: Path, executor: str | None) -> Road:
    """Let a run's worker die after it has executed its plan."""
    clock = RoadClock()
    road = Road(folder, clock=clock, storages=ClockedStorages(clock))
    road.compose(TellingPool(clock=clock, executor=executor))
    road.write(3)
    road.until(lambda: bool(road.states()) and road.states()[0] is not RunState.QUEUED and not road.pool._runs)
    return road


def _instant(road: Road) -> str:
    (plan,) = road.view().timeline.pending(Service.COMPACTION)
    return plan.time


def test_a_dead_jvms_instant_is_not_waited_for(tmp_path: Path) -> None:
    """It is completed while its heartbeat still stands, and its program is told whose that is."""
    road = _killed(tmp_path, _executor(dead=True))
    killed = road.clock.now()
    road.until(lambda: bool(road.completed(Service.COMPACTION)))
    assert road.clock.now() - killed < WINDOW
    assert isinstance(road.pool, TellingPool)
    assert [given.predecessor_dead for given in road.pool.given] == [False, True]


@pytest.mark.parametrize("executor", ["living", "unknown"])
def test_without_the_proof_the_heartbeat_is_waited_for(tmp_path: Path, executor: str) -> None:
    """A process that lives, or that nobody here can see, may still complete it."""
    road = _killed(tmp_path, None if executor == "unknown" else _executor(dead=False))
    road.until(lambda: bool(road.completed(Service.COMPACTION)))
    (done,) = road.completed(Service.COMPACTION)
    assert done.completed_at is not None
    assert done.completed_at - done.requested_at >= WINDOW
    assert isinstance(road.pool, TellingPool)
    assert not any(given.predecessor_dead for given in road.pool.given)


def test_somebody_elses_heartbeat_on_a_dead_jvms_instant_guards_it(tmp_path: Path) -> None:
    """Since our JVM died another executor may have begun: its sign of life is later than any of ours can be."""
    road = _killed(tmp_path, _executor(dead=True))
    instant = _instant(road)
    road.status.pause(TRIPS, reason="a person looks at it")
    road.for_a_while(timedelta(seconds=40))
    road.lake.beat(instant)
    road.status.resume(TRIPS)
    road.for_a_while(WINDOW / 2)
    decision = road.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert "guarded by the heartbeat" in decision.reason


def test_a_foreign_executor_that_begins_after_the_decision_ends_the_run_before_it_executes(tmp_path: Path) -> None:
    """Between deciding and executing minutes may pass: what was freed then is looked at again."""
    road = _killed(tmp_path, _executor(dead=True))
    instant = _instant(road)
    road.until(lambda: len(road.states()) == 2)
    run = road.runs()[-1]
    plan = next(one for one in road.view().timeline.pending(Service.COMPACTION) if one.time == instant)
    freed = road.daemon._surroundings._freed
    assert freed.includes(run, plan)
    assert plan.last_beat is not None
    assert not freed.includes(run, replace(plan, last_beat=plan.last_beat + timedelta(minutes=1)))
    assert not freed.includes(replace(run, identity="another table"), plan)


def test_an_earlier_life_of_the_daemon_tells_when_its_jvm_was_alive(tmp_path: Path) -> None:
    """By the last renewal of its claim, which names the JVMs that were at work: a restart does not wait either."""
    clock = RoadClock()
    road = Road(tmp_path, clock=clock, storages=ClockedStorages(clock))
    road.compose(HoldingPool(slots=4, clock=clock, executor=_executor(dead=True)))
    assert isinstance(road.pool, HoldingPool)
    road.pool.hold(Service.COMPACTION, Step.COMMIT)
    road.write(3)
    road.until(lambda: road.states() == [RunState.COMMITTING])
    begun = road.clock.now()
    again = TellingPool(clock=clock, executor=_executor(dead=True), dies=False)
    road.compose(again)
    road.until(lambda: bool(road.completed(Service.COMPACTION)))
    assert road.clock.now() - begun < WINDOW
    assert [given.predecessor_dead for given in again.given] == [True]


def test_a_table_that_comes_from_another_replica_has_its_claim_read_again(tmp_path: Path) -> None:
    """We may have looked before that replica's JVM began: what it has left is told only by its last renewal."""
    clock = RoadClock()
    road = Road(tmp_path, clock=clock, storages=ClockedStorages(clock))
    claims = road.daemon._claims
    executor = _executor(dead=True)
    road.daemon.turn()
    claims.attend()
    theirs = Claim(
        holder=road.store.identity(), life="another replica", host="there", pid=1, since=clock.now(), counter=1,
        silent_after=timedelta(minutes=2), executors=(executor,),
    )  # fmt: skip
    file = road.lake.folder / "claims" / "claim.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(theirs.to_bytes())
    claims.attend()
    assert claims.alive_at(TRIPS, executor) is None

    claims.look_again([TRIPS])
    claims.attend()

    assert claims.alive_at(TRIPS, executor) == clock.now()
