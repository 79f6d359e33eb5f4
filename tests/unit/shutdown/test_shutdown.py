"""Shutdown: nothing new is begun, what runs may finish, then it steps back, and the store is left last of all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.shutdown import STEP_BACK, Phase, Shutdown
from lakewarden.service.store.memory import MemoryStore
from tests.support.road import TRIPS, HoldingPool, Road

DRAIN = timedelta(minutes=1)


class StubbornPool(HoldingPool):
    """A pool whose runs do not listen when they are told to stop."""

    def __init__(self, road: Road) -> None:
        super().__init__(slots=road.slots, clock=road.clock)
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
    assert shutdown.phase(busy=True) is Phase.SERVING

    shutdown.ask()
    assert shutdown.phase(busy=True) is Phase.DRAINING
    clock.advance(DRAIN)
    assert shutdown.phase(busy=True) is Phase.STEPPING_BACK
    clock.advance(STEP_BACK)
    assert shutdown.phase(busy=True) is Phase.OVER


def test_it_is_over_as_soon_as_nothing_runs(clock: ManualClock) -> None:
    """Nobody waits for a deadline that nobody needs."""
    shutdown = Shutdown(clock=clock, drain=DRAIN)
    shutdown.ask()

    assert shutdown.phase(busy=False) is Phase.OVER


def test_without_a_drain_runs_still_have_a_moment_to_step_back(clock: ManualClock) -> None:
    """Zero is safe: what is cut off is resumable, and most of it is not even cut off."""
    shutdown = Shutdown(clock=clock, drain=timedelta(0))
    shutdown.ask()

    assert shutdown.phase(busy=True) is Phase.STEPPING_BACK


def test_a_second_signal_ends_it_at_once(clock: ManualClock) -> None:
    """Whatever runs: somebody is in a hurry."""
    shutdown = Shutdown(clock=clock, drain=DRAIN)
    shutdown.ask()
    shutdown.ask()

    assert shutdown.phase(busy=True) is Phase.OVER


def test_nothing_is_claimed_any_more(tmp_path: Path) -> None:
    """A table that becomes due meanwhile waits in the queue for the next daemon."""
    road = Road(tmp_path, names=["trips", "orders"])
    road.write(3)
    road.until_executing(Step.EXECUTE)
    road.daemon.stop()
    road.turn()
    road.write(3, TableId("orders"))
    road.until(lambda: road.states(table=TableId("orders")) == [RunState.QUEUED])
    road.for_a_while(DRAIN / 2)

    assert road.daemon.phase is Phase.DRAINING
    assert road.states(table=TableId("orders")) == [RunState.QUEUED]


def test_what_runs_may_finish_within_the_drain(tmp_path: Path) -> None:
    """Its permits are granted as ever, and the daemon ends when it is done."""
    road = Road(tmp_path, drain=DRAIN)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    road.daemon.stop()
    road.for_a_while(DRAIN / 2)
    road.held_pool.release()

    road.until(lambda: road.daemon.phase is Phase.OVER, within=timedelta(seconds=5))

    assert road.states() == [RunState.SUCCEEDED]


def test_at_the_deadline_what_still_runs_is_told_to_step_back(tmp_path: Path) -> None:
    """It ends in good order, its plan stays pending for whoever comes next, and no heartbeat guards it any more."""
    road = Road(tmp_path, drain=DRAIN)
    road.write(3)
    road.until_executing(Step.EXECUTE)

    road.stop()

    (run,) = road.runs()
    assert (run.state, run.outcome) == (RunState.CANCELLED, "the drain deadline has passed")
    (plan,) = road.view().timeline.pending(Service.COMPACTION)
    assert plan.guarded_until is None


@pytest.mark.parametrize("drain", [timedelta(0), DRAIN])
def test_what_does_not_step_back_is_killed_and_stays_resumable(tmp_path: Path, drain: timedelta) -> None:
    """It has a few seconds and no more; then its JVM is gone, and the next daemon completes the very same instant."""
    road = Road(tmp_path, drain=drain)
    road.compose(pool := StubbornPool(road))
    road.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    road.until(lambda: pool.under_way != [])
    (run,) = road.runs()
    began = road.clock.now()

    road.stop()

    assert drain + STEP_BACK <= road.clock.now() - began < drain + STEP_BACK + timedelta(seconds=1)
    assert pool.told == [run.id]
    assert pool.room().slots == 0
    assert road.runs()[0].state.ended
    road.compose()
    road.until(lambda: road.states()[-1] is RunState.SUCCEEDED)
    assert road.runs()[-1].instant == road.runs()[0].instant


def test_no_permit_is_given_after_the_deadline(tmp_path: Path) -> None:
    """A step that ends meanwhile is the last one: the run asks for the next, and is refused."""
    road = Road(tmp_path, drain=timedelta(0))
    road.compose(pool := StubbornPool(road))
    road.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    road.until(lambda: pool.under_way != [])
    road.daemon.stop()
    road.turn()
    assert road.daemon.phase is Phase.STEPPING_BACK

    pool.release()
    road.stop()

    assert "compaction commit Granted" not in road.diary.lines
    assert [plan.state for plan in road.view().timeline.pending(Service.COMPACTION)] == [State.INFLIGHT]


@pytest.mark.timeout(30)
def test_a_second_signal_kills_what_runs_at_once(tmp_path: Path) -> None:
    """No drain, no stepping back; what was cut off is settled all the same."""
    road = Road(tmp_path, drain=DRAIN)
    road.compose(pool := StubbornPool(road))
    road.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    road.until(lambda: pool.under_way != [])
    road.daemon.stop()
    road.turn()
    began = road.clock.now()

    road.stop()

    assert road.clock.now() - began <= timedelta(seconds=1)
    assert pool.told == []
    assert road.runs()[0].state.ended


def test_the_store_is_left_when_every_worker_is_gone_and_every_run_is_settled(tmp_path: Path) -> None:
    """Until then the shares are kept: whoever takes over starts at once, and must find nobody."""
    store = PartingStore()
    road = Road(tmp_path, drain=timedelta(0), store=store)
    road.compose(pool := StubbornPool(road))
    road.write(3)
    pool.hold(Service.COMPACTION, Step.EXECUTE)
    road.until(lambda: pool.under_way != [])
    seen: list[tuple[int, list[RunState]]] = []
    store.at_parting = lambda: seen.append((pool.room().slots, road.states()))
    road.daemon.stop()
    road.turn()
    assert seen == []
    assert store.shares() != {}

    road.stop()

    assert [(slots, [state.ended for state in states]) for slots, states in seen] == [(0, [True])]
    assert [replica.alive for replica in store.replicas()][-1] is False
    assert store.shares() == {}


def test_a_daemon_that_breaks_closes_its_workers_and_keeps_its_lease(tmp_path: Path) -> None:
    """A bug on the control thread ends the process; the lease ends by itself, and nobody is told that all is well."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.EXECUTE)

    def break_down() -> float:
        raise ZeroDivisionError

    road.daemon.turn = break_down  # type: ignore[method-assign]

    with pytest.raises(ZeroDivisionError):
        road.daemon.run()

    assert road.pool.room().slots == 0
    assert [replica.alive for replica in road.store.replicas()] == [True]


def test_a_store_that_does_not_answer_at_the_end_does_not_keep_the_daemon(tmp_path: Path) -> None:
    """The lease ends by itself."""
    store = PartingStore()
    road = Road(tmp_path, store=store)

    def away() -> None:
        raise TemporaryError("the store does not answer")

    store.at_parting = away

    road.stop()

    assert [replica.alive for replica in store.replicas()] == [True]


def test_a_daemon_that_ends_is_not_ready(tmp_path: Path) -> None:
    """So that no more hooks and requests are sent to it; it is alive all the time."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    assert road.status.health().unready == ()

    road.daemon.stop()
    road.turn()

    assert road.status.health().unready == ("the daemon is stopping",)
    assert road.status.health().turned_ago < timedelta(seconds=2)
    assert road.lakes[TRIPS].log_files == 3
