"""A daemon that is stopped anywhere, with its workers, and a new one on what it left: nothing is lost or done twice."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Assignment, Granted, Refused
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service, State, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import Run, RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, HoldingPool, prepare
from tests.support.pool.poison import a_dead_process
from tests.support.store.memory_store import MemoryStore


class Killed(BaseException):
    """The daemon's process is gone: no handler of its own may see this."""


class Fuse:
    """Counts the places at which the daemon can be stopped, and stops it at one of them."""

    def __init__(self, *, burns_at: int | None = None) -> None:
        self.places = 0
        self._burns_at = burns_at

    def pass_by(self) -> None:
        """Be stopped here, if this is the place."""
        self.places += 1
        if self.places == self._burns_at:
            raise Killed


_CHANGES = {"request", "take_lease", "adopt", "progress", "end", "decided"}


class MortalStore(MemoryStore):
    """A store whose daemon may be stopped right before and right after every change; what was changed stays."""

    fuse = Fuse()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _CHANGES:
            return found

        def change(*facts: Any, **named: Any) -> Any:
            self.fuse.pass_by()
            answer = found(*facts, **named)
            self.fuse.pass_by()
            return answer

        return change


class MortalPool(HoldingPool):
    """A pool whose daemon may be stopped right before and right after every call: before and after each step."""

    def __init__(self, fuse: Fuse, *, slots: int, clock: ManualClock) -> None:
        super().__init__(slots=slots, clock=clock)
        self._fuse = fuse

    def submit(self, assignment: Assignment) -> None:
        self._fuse.pass_by()
        super().submit(assignment)
        self._fuse.pass_by()

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        self._fuse.pass_by()
        super().answer(run, step, permit)
        self._fuse.pass_by()


class KillableHarness(DaemonHarness):
    """A harness with a daemon that can be stopped at any place, together with its workers."""

    store: MortalStore

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, policies=COMPACT_AND_CLEAN, store=MortalStore())

    def live(self, fuse: Fuse) -> None:
        """Start a daemon on what is there and let it work until nothing is left to do, or it is stopped."""
        self.store.fuse = fuse
        try:
            self.compose(MortalPool(fuse, slots=self.slots, clock=self.clock))
            self.until(lambda: self.at_rest() and self.done(), within=timedelta(hours=1))
        finally:
            self.store.fuse = Fuse()

    def is_stopped_at(self, place: int) -> bool:
        """Live until the daemon is stopped at a place; False if its life has no such place."""
        try:
            self.live(Fuse(burns_at=place))
        except Killed:
            return True
        return False

    def done(self) -> bool:
        """Whether the table has been compacted and cleaned."""
        return self.lake.log_files == 0 and len(self.completed(Service.CLEAN)) == 1


@pytest.fixture
def harness(tmp_path: Path) -> KillableHarness:
    """Make a table with an old version to clean and log files to compact."""
    harness = KillableHarness(tmp_path)
    prepare(harness.lake)
    return harness


def everything_is_right(harness: KillableHarness) -> None:
    """Assert what must hold in the end, wherever a daemon was stopped on the way."""
    assert harness.lake.rows == 6
    assert harness.lake.log_files == 0
    assert len(harness.completed(Service.COMPACTION)) == 2, "one by hand, and one by us"
    assert len(harness.completed(Service.CLEAN)) == 1
    for service in (Service.COMPACTION, Service.CLEAN):
        runs = harness.runs(service)
        assert all(run.state.ended for run in runs)
        assert [run.state for run in runs].count(RunState.SUCCEEDED) == 1
        epochs = [run.epoch for run in runs if run.epoch]
        assert epochs == sorted(set(epochs)), "every owner has a higher epoch than the one before"
    assert harness.pool.capacity().free == harness.slots


PLACES = 60
"""Places at which a daemon can be stopped while it compacts and cleans one table, at most."""


def test_there_are_no_more_places_than_are_tried(harness: KillableHarness) -> None:
    """Else the next test would leave some out; and a life that is not stopped ends well."""
    fuse = Fuse()

    harness.live(fuse)

    assert PLACES - 20 < fuse.places < PLACES
    everything_is_right(harness)


@pytest.mark.parametrize("place", range(1, PLACES))
def test_a_daemon_that_is_stopped_anywhere_is_followed_by_one_that_finishes(
    harness: KillableHarness, place: int
) -> None:
    """Before and after every row that is written, every run that is submitted, and every step that is taken."""
    harness.is_stopped_at(place)
    harness.live(Fuse())

    everything_is_right(harness)


@pytest.mark.parametrize("place", range(1, PLACES, 7))
def test_a_daemon_that_is_stopped_again_while_it_takes_over_is_followed_too(
    harness: KillableHarness, place: int
) -> None:
    """However often: each is stopped a little later in its own life than the one before."""
    for again in range(place, place + 12, 3):
        if not harness.is_stopped_at(again):
            break
    harness.live(Fuse())

    everything_is_right(harness)


def test_what_was_completed_before_the_restart_is_settled_at_once(harness: KillableHarness) -> None:
    """The timeline says so: no worker has to be waited for."""
    harness.compose()
    run = harness.until_executing(Step.COMMIT)
    harness.held_pool.release()  # it has committed; the daemon dies before it hears of it

    harness.compose()

    settled = harness.store.run(run.id)
    assert settled is not None
    assert settled.state is RunState.SUCCEEDED
    assert settled.outcome is not None
    assert settled.outcome.startswith("the timeline shows it completed")


def test_what_an_orphaned_worker_may_still_be_doing_is_waited_for(harness: KillableHarness) -> None:
    """Until it must be gone its run is UNKNOWN and nothing starts on the table: then the run has failed."""
    harness.compose()
    run = harness.until_executing(Step.EXECUTE)
    orphan = harness.held_pool

    harness.compose()
    harness.for_a_while(timedelta(seconds=5))
    known = harness.store.run(run.id)
    assert known is not None
    assert known.state is RunState.UNKNOWN
    assert all(other.state in (RunState.UNKNOWN, RunState.QUEUED) for other in harness.store.active())
    orphan.release()  # the orphan's step ends; it asks a daemon that is gone
    (compaction,) = harness.view().timeline.pending(Service.COMPACTION)
    assert compaction.state is State.INFLIGHT

    harness.until(lambda: harness.done() and harness.at_rest())
    everything_is_right(harness)


def test_no_other_service_starts_beside_an_orphaned_worker(tmp_path: Path) -> None:
    """A clean that may still be deleting is waited for as if it were our own, before anything starts on its table."""
    harness = DaemonHarness(
        tmp_path, policies={**COMPACT_AND_CLEAN, Service.COMPACTION: Policy(trigger=NumCommits(at_least=4))}
    )
    prepare(harness.lake)
    harness.until_executing(Step.COMMIT, Service.CLEAN)

    harness.compose()
    harness.write(1)  # the fourth: compaction is due
    harness.until(lambda: bool(harness.runs()))
    harness.for_a_while(timedelta(seconds=5))
    assert harness.states(Service.CLEAN) == [RunState.UNKNOWN]
    assert harness.states() == [RunState.QUEUED]

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED] and harness.at_rest())
    assert harness.states(Service.CLEAN) == [RunState.FAILED, RunState.SUCCEEDED]


def test_a_commit_of_an_orphaned_worker_that_comes_through_counts(harness: KillableHarness) -> None:
    """A worker that outlives its daemon for a moment completes what it was permitted: the run has succeeded."""
    harness.compose()
    run = harness.until_executing(Step.COMMIT)
    orphan = harness.held_pool

    harness.compose()
    harness.for_a_while(timedelta(seconds=2))
    orphan.release()

    harness.until(lambda: harness.done() and harness.at_rest())
    settled = harness.store.run(run.id)
    assert settled is not None
    assert settled.state is RunState.SUCCEEDED
    everything_is_right(harness)


def test_a_queued_run_goes_on_in_the_next_daemon(harness: KillableHarness) -> None:
    """The very same row, not a second one."""
    harness.slots = 0
    harness.compose()
    harness.until(lambda: harness.states() == [RunState.QUEUED])
    (run,) = harness.runs()

    harness.slots = 4
    harness.compose()
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])

    assert [found.id for found in harness.runs(table=TRIPS)] == [run.id]


# -- when nobody can be at it any more


def executed_by(harness: DaemonHarness, executor: str) -> Run:
    """Let a compaction execute in a JVM of that name, and the daemon be killed meanwhile; return the run."""
    harness.pool._executor = executor
    return harness.until_executing(Step.EXECUTE)


def state_of(harness: DaemonHarness, run: Run) -> RunState:
    """Return how a run stands now."""
    row = harness.store.run(run.id)
    assert row is not None
    return row.state


def test_a_run_whose_jvm_is_proved_dead_is_settled_at_once(harness: KillableHarness) -> None:
    """No time has to pass, and the plan that it left is taken up."""
    harness.compose()
    run = executed_by(harness, a_dead_process(1))

    harness.compose()

    assert state_of(harness, run) is RunState.FAILED
    harness.until(lambda: harness.done() and harness.at_rest())
    everything_is_right(harness)


def test_a_run_whose_jvm_lives_is_waited_for_until_it_is_dead(harness: KillableHarness) -> None:
    """It is asked again and again, and believed as soon as it is true."""
    jvm = subprocess.Popen(["sleep", "60"])
    alive = ProcessIdentity.of(jvm.pid)
    assert alive is not None
    harness.compose()
    run = executed_by(harness, alive.to_text())

    harness.compose()
    harness.for_a_while(timedelta(seconds=5))
    still = state_of(harness, run)
    jvm.kill()
    jvm.wait()
    harness.for_a_while(timedelta(seconds=2))

    assert still is RunState.UNKNOWN
    assert state_of(harness, run) is RunState.FAILED


@pytest.mark.parametrize("executor", [None, "somewhere else"])
def test_without_proof_no_worker_outlives_the_time_it_was_told(harness: KillableHarness, executor: str | None) -> None:
    """On another machine, or in another container, only time proves a death."""
    harness.compose()
    run = executed_by(harness, executor or "")

    harness.compose()
    harness.for_a_while(timedelta(seconds=30))
    assert state_of(harness, run) is RunState.UNKNOWN

    harness.for_a_while(timedelta(seconds=8))
    assert state_of(harness, run) is RunState.FAILED


def test_a_run_that_was_claimed_and_given_to_nobody_is_settled_at_once(harness: KillableHarness) -> None:
    """Without leave for a step it cannot have touched the table: nobody has to be waited for."""
    harness.slots = 0
    harness.compose()
    harness.until(lambda: harness.states() == [RunState.QUEUED])
    (run,) = harness.runs()
    harness.store.take_lease(run.id, owner=harness.replica_lease.replica, at=harness.clock.now())

    harness.compose()

    assert state_of(harness, run) is RunState.CANCELLED
    assert harness.store.rows(ServiceStateRow) == []


def test_a_timeline_that_cannot_be_read_is_waited_for_and_then_believed(harness: KillableHarness) -> None:
    """UNKNOWN ends when the timeline can be read: what the worker said is remembered until then."""
    harness.compose()
    run = harness.until_executing(Step.COMMIT)
    away = harness.lake.folder.with_name("away")
    harness.held_pool.release()
    harness.lake.folder.rename(away)
    harness.for_a_while(timedelta(minutes=2))
    meanwhile = state_of(harness, run)
    away.rename(harness.lake.folder)

    harness.until(lambda: state_of(harness, run).ended)

    assert meanwhile is RunState.UNKNOWN
    settled = harness.store.run(run.id)
    assert settled is not None
    assert (settled.state, settled.outcome) == (RunState.SUCCEEDED, "completed")
    assert settled.figures


def test_recovering_again_changes_nothing(harness: KillableHarness) -> None:
    """It may be called as often as the store had no answer."""
    harness.compose()
    run = harness.until_executing(Step.EXECUTE)
    harness.compose()
    before = harness.store.run(run.id)

    harness.daemon._runs.recover()

    assert harness.store.run(run.id) == before
