"""Shutdown: nothing new is begun, what runs may finish, then it steps back, and the store is left last of all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, State, Step
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.shutdown import STEP_BACK, Shutdown, ShutdownPhase
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness, HoldingPool
from tests.support.store.memory_store import MemoryStore

DRAIN = timedelta(minutes=1)


class StubbornPool(HoldingPool):
    """A pool whose runs do not listen when they are told to stop."""

    def __init__(self, harness: DaemonHarness) -> None:
        super().__init__(slots=harness.slots, clock=harness.clock)
        self.told: list[RunId] = []

    def cancel(self, run: RunId, reason: str) -> None:
        self.told.append(run)


class PartingStore(MemoryStore):
    """A store that lets a test look around when a replica leaves."""

    at_parting: Callable[[], None] = staticmethod(lambda: None)

    def leave(self, replica: ReplicaId) -> None:
        self.at_parting()
        super().leave(replica)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_it_goes_through_its_phases_while_runs_are_under_way(clock: ManualClock) -> None:
    """The drain, then a few seconds to step back, then the end."""
    shutdown = Shutdown(clock=clock, drain=DRAIN)
    assert shutdown.phase(busy=True) is ShutdownPhase.SERVING

    shutdown.ask()
    assert shutdown.phase(busy=True) is ShutdownPhase.DRAINING
    clock.advance(DRAIN)
    assert shutdown.phase(busy=True) is ShutdownPhase.STEPPING_BACK
    clock.advance(STEP_BACK)
    assert shutdown.phase(busy=True) is ShutdownPhase.OVER


def test_it_is_over_as_soon_as_nothing_runs(clock: ManualClock) -> None:
    """Nobody waits for a deadline that nobody needs."""
    shutdown = Shutdown(clock=clock, drain=DRAIN)
    shutdown.ask()

    assert shutdown.phase(busy=False) is ShutdownPhase.OVER


def test_at_the_deadline_what_still_runs_is_told_to_step_back(tmp_path: Path) -> None:
    """It ends in good order, its plan stays pending for whoever comes next, and no heartbeat guards it any more."""
    harness = DaemonHarness(tmp_path, drain=DRAIN)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)

    harness.stop()

    (run,) = harness.runs()
    assert (run.state, run.outcome) == (RunState.YIELDED, "the drain deadline has passed")
    (plan,) = harness.view().timeline.pending(Service.COMPACTION)
    assert plan.guarded_until is None


@pytest.mark.parametrize("drain", [timedelta(0), DRAIN])
def test_what_does_not_step_back_is_killed_and_stays_resumable(tmp_path: Path, drain: timedelta) -> None:
    """It has a few seconds and no more; then its JVM is gone, and the next daemon completes the very same instant."""
    harness = DaemonHarness(tmp_path, drain=drain)
    harness.compose(pool := StubbornPool(harness))
    harness.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: pool.under_way != [])
    (run,) = harness.runs()
    began = harness.clock.now()

    harness.stop()

    assert drain + STEP_BACK <= harness.clock.now() - began < drain + STEP_BACK + timedelta(seconds=1)
    assert pool.told == [run.id]
    assert pool.capacity().slots == 0
    assert harness.runs()[0].state.ended
    harness.compose()
    harness.until(lambda: harness.states()[-1] is RunState.SUCCEEDED)
    assert harness.runs()[-1].instant == harness.runs()[0].instant


def test_no_permit_is_given_after_the_deadline(tmp_path: Path) -> None:
    """A step that ends meanwhile is the last one: the run asks for the next, and is refused."""
    harness = DaemonHarness(tmp_path, drain=timedelta(0))
    harness.compose(pool := StubbornPool(harness))
    harness.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: pool.under_way != [])
    harness.daemon.stop()
    harness.turn()
    assert harness.daemon.phase is ShutdownPhase.STEPPING_BACK

    pool.release()
    harness.stop()

    assert "compaction commit Granted" not in harness.recorded.lines
    assert [plan.state for plan in harness.view().timeline.pending(Service.COMPACTION)] == [State.INFLIGHT]


@pytest.mark.timeout(30)
def test_a_second_signal_kills_what_runs_at_once(tmp_path: Path) -> None:
    """No drain, no stepping back; what was cut off is settled all the same."""
    harness = DaemonHarness(tmp_path, drain=DRAIN)
    harness.compose(pool := StubbornPool(harness))
    harness.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: pool.under_way != [])
    harness.daemon.stop()
    harness.turn()
    began = harness.clock.now()

    harness.stop()

    assert harness.clock.now() - began <= timedelta(seconds=1)
    assert pool.told == []
    assert harness.runs()[0].state.ended


def test_the_store_is_left_when_every_worker_is_gone_and_every_run_is_settled(tmp_path: Path) -> None:
    """Until then the shares are kept: whoever takes over starts at once, and must find nobody."""
    store = PartingStore()
    harness = DaemonHarness(tmp_path, drain=timedelta(0), store=store)
    harness.compose(pool := StubbornPool(harness))
    harness.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: pool.under_way != [])
    seen: list[tuple[int, list[RunState]]] = []
    store.at_parting = lambda: seen.append((pool.capacity().slots, harness.states()))
    harness.daemon.stop()
    harness.turn()
    assert seen == []
    assert store.shares() != {}

    harness.stop()

    assert [(slots, [state.ended for state in states]) for slots, states in seen] == [(0, [True])]
    assert [replica.alive for replica in store.replicas()][-1] is False
    assert store.shares() == {}


def test_a_daemon_that_breaks_closes_its_workers_and_keeps_its_lease(tmp_path: Path) -> None:
    """A bug on the control thread ends the process; the lease ends by itself, and nobody is told that all is well."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)

    def break_down() -> float:
        raise ZeroDivisionError

    harness.daemon.turn = break_down  # type: ignore[method-assign]

    with pytest.raises(ZeroDivisionError):
        harness.daemon.run()

    assert harness.pool.capacity().slots == 0
    assert [replica.alive for replica in harness.store.replicas()] == [True]


def test_a_store_that_does_not_answer_at_the_end_does_not_keep_the_daemon(tmp_path: Path) -> None:
    """The lease ends by itself."""
    store = PartingStore()
    harness = DaemonHarness(tmp_path, store=store)

    def away() -> None:
        raise TemporaryError("the store does not answer")

    store.at_parting = away

    harness.stop()

    assert [replica.alive for replica in store.replicas()] == [True]


def test_a_daemon_that_ends_is_not_ready(tmp_path: Path) -> None:
    """So that no more hooks and requests are sent to it; it is alive all the time."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    assert harness.status.health().unready == ()

    harness.daemon.stop()
    harness.turn()

    assert harness.status.health().unready == ("the daemon is stopping",)
    assert harness.status.health().turned_ago < timedelta(seconds=2)
    assert harness.lakes[TRIPS].log_files == 3
