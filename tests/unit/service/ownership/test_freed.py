"""An instant whose JVM is proved dead is taken up at once; any other waits for its heartbeat to run out."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.application import ClusterApplication, ClusterKind
from lakewarden.executors.contract import Assignment
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.ports import ConditionalWrites, Versioned
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.service.model.run import RunState
from lakewarden.service.ownership.claim_file import Claim
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness, HarnessClock, HoldingPool
from tests.support.doubles.fake.layout import WINDOW
from tests.support.doubles.fake_pool import FakePool

APPLICATION = ClusterApplication(
    kind=ClusterKind.STANDALONE,
    master="spark://127.0.0.1:7077",
    application="app-20261124040607-0000",
    web_ui=None,
    executors_end_within=45,
)


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

    def __init__(
        self, *, clock: Clock, executor: str | None, dies: bool = True, application: str | None = None
    ) -> None:
        super().__init__(slots=4, clock=clock, executor=executor, application=application)
        self._dies = dies
        self.given: list[Assignment] = []

    def submit(self, assignment: Assignment) -> None:
        self.given.append(assignment)
        super().submit(assignment)
        if self._dies and len(self.given) == 1:
            self.kill(assignment.run, after=Step.EXECUTE)


def _killed(folder: Path, executor: str | None, application: str | None = None) -> DaemonHarness:
    """Let a run's worker die after it has executed its plan."""
    clock = HarnessClock()
    harness = DaemonHarness(folder, clock=clock, storages=ClockedStorages(clock))
    harness.compose(TellingPool(clock=clock, executor=executor, application=application))
    harness.write(3)
    harness.until(
        lambda: bool(harness.states()) and harness.states()[0] is not RunState.QUEUED and not harness.pool._runs
    )
    return harness


def _instant(harness: DaemonHarness) -> str:
    (plan,) = harness.view().timeline.pending(Service.COMPACTION)
    return plan.time


def test_a_dead_jvms_instant_is_not_waited_for(tmp_path: Path) -> None:
    """It is completed while its heartbeat still stands, and its program is told whose that is."""
    harness = _killed(tmp_path, _executor(dead=True))
    killed = harness.clock.now()
    harness.until(lambda: bool(harness.completed(Service.COMPACTION)))
    assert harness.clock.now() - killed < WINDOW
    assert isinstance(harness.pool, TellingPool)
    assert [given.predecessor_dead for given in harness.pool.given] == [False, True]


@pytest.mark.parametrize("application", [None, APPLICATION.to_text()])
def test_an_instant_of_a_dead_jvm_with_executors_elsewhere_is_not_free(tmp_path: Path, application: str | None) -> None:
    """They may write to it after their driver has died, until their end is proved, too."""
    harness = _killed(tmp_path, _executor(dead=True), application)
    harness.status.commands.pause(TRIPS, reason="a person looks at it")
    ours, dead = frozenset({_instant(harness)}), harness.daemon._runs._dead_executors

    freed = dead.of(TRIPS, harness.view(), Service.COMPACTION, ours=ours)
    harness.for_a_while(timedelta(seconds=45))

    assert freed == (ours if application is None else frozenset())
    assert dead.of(TRIPS, harness.view(), Service.COMPACTION, ours=ours) == ours


@pytest.mark.parametrize("executor", ["living", "unknown"])
def test_without_the_proof_the_heartbeat_is_waited_for(tmp_path: Path, executor: str) -> None:
    """A process that lives, or that nobody here can see, may still complete it."""
    harness = _killed(tmp_path, None if executor == "unknown" else _executor(dead=False))
    harness.until(lambda: bool(harness.completed(Service.COMPACTION)))
    (done,) = harness.completed(Service.COMPACTION)
    assert done.completed_at is not None
    assert done.completed_at - done.requested_at >= WINDOW
    assert isinstance(harness.pool, TellingPool)
    assert not any(given.predecessor_dead for given in harness.pool.given)


def test_somebody_elses_heartbeat_on_a_dead_jvms_instant_guards_it(tmp_path: Path) -> None:
    """Since our JVM died another executor may have begun: its sign of life is later than any of ours can be."""
    harness = _killed(tmp_path, _executor(dead=True))
    instant = _instant(harness)
    harness.status.commands.pause(TRIPS, reason="a person looks at it")
    harness.for_a_while(timedelta(seconds=40))
    harness.lake.beat(instant)
    harness.status.commands.resume(TRIPS)
    harness.for_a_while(WINDOW / 2)
    decision = harness.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert "guarded by the heartbeat" in decision.reason


def test_a_foreign_executor_that_begins_after_the_decision_ends_the_run_before_it_executes(tmp_path: Path) -> None:
    """Between deciding and executing minutes may pass: what was freed then is looked at again."""
    harness = _killed(tmp_path, _executor(dead=True))
    instant = _instant(harness)
    harness.until(lambda: len(harness.states()) == 2)
    run = harness.runs()[-1]
    plan = next(one for one in harness.view().timeline.pending(Service.COMPACTION) if one.time == instant)
    dead_executors = harness.daemon._permit_contexts._dead_executors
    assert dead_executors.includes(run, plan)
    assert plan.last_beat is not None
    assert not dead_executors.includes(run, replace(plan, last_beat=plan.last_beat + timedelta(minutes=1)))
    assert not dead_executors.includes(replace(run, identity="another table"), plan)


def test_an_earlier_life_of_the_daemon_tells_when_its_jvm_was_alive(tmp_path: Path) -> None:
    """By the last renewal of its claim, which names the JVMs that were at work: a restart does not wait either."""
    clock = HarnessClock()
    harness = DaemonHarness(tmp_path, clock=clock, storages=ClockedStorages(clock))
    harness.compose(HoldingPool(slots=4, clock=clock, executor=_executor(dead=True)))
    assert isinstance(harness.pool, HoldingPool)
    harness.pool.hold(Service.COMPACTION, Step.COMMIT)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.COMMITTING])
    begun = harness.clock.now()
    again = TellingPool(clock=clock, executor=_executor(dead=True), dies=False)
    harness.compose(again)
    harness.until(lambda: bool(harness.completed(Service.COMPACTION)))
    assert harness.clock.now() - begun < WINDOW
    assert [given.predecessor_dead for given in again.given] == [True]


def test_a_table_that_comes_from_another_replica_has_its_claim_read_again(tmp_path: Path) -> None:
    """We may have looked before that replica's JVM began: what it has left is told only by its last renewal."""
    clock = HarnessClock()
    harness = DaemonHarness(tmp_path, clock=clock, storages=ClockedStorages(clock))
    claims = harness.daemon._claims
    executor = _executor(dead=True)
    harness.daemon.turn()
    claims.maintain()
    theirs = Claim(
        holder=harness.store.identity(), life="another replica", host="there", pid=1, since=clock.now(), counter=1,
        silent_after=timedelta(minutes=2), executors=(executor,),
    )  # fmt: skip
    file = harness.lake.folder / "claims" / "claim.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(theirs.to_bytes())
    claims.maintain()
    assert claims.alive_at(TRIPS, executor) is None

    claims.check_again([TRIPS])
    claims.maintain()

    assert claims.alive_at(TRIPS, executor) == clock.now()
