"""What people ask of the daemon: runs, pauses, and that it stops."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.model.run import RunState
from tests.support.road import COMPACT_AND_CLEAN, TRIPS, Road

_Answer = TypeVar("_Answer")


def answered(road: Road, future: Future[_Answer]) -> _Answer:
    """Turn once and return the answer, which must be there at once."""
    road.turn()
    return future.result(timeout=0)


def ask(road: Road, service: Service = Service.COMPACTION) -> RunGiven | Blocked | NotDue:
    """Ask for a run of trips as the API does."""
    return answered(road, road.status.request_run(TRIPS, service, by="a person"))


# -- runs


def test_asking_skips_the_trigger(tmp_path: Path) -> None:
    """One commit is enough where somebody wants it; the row says who."""
    road = Road(tmp_path)
    road.write(1)

    given = ask(road)
    road.until(lambda: road.states() == [RunState.SUCCEEDED])

    assert isinstance(given, RunGiven)
    assert given.new
    (run,) = road.runs()
    assert (run.id, run.requested_by, run.reason) == (given.run.id, "a person", "asked for")
    assert road.lake.log_files == 0


def test_asking_for_a_service_without_a_policy_harms_nobody(tmp_path: Path) -> None:
    """The asker hears what is missing; the control thread turns on."""
    road = Road(tmp_path)
    road.write(3)

    with pytest.raises(PermanentError, match="has no policy for clustering"):
        ask(road, Service.CLUSTERING)

    road.until(lambda: road.lake.log_files == 0)


def test_asking_for_what_is_active_answers_with_that_run(tmp_path: Path) -> None:
    """However far it has come, and as often as it is asked for."""
    road = Road(tmp_path)
    road.write(3)
    run = road.until_executing(Step.COMMIT)

    for _ in range(2):
        given = ask(road)
        assert isinstance(given, RunGiven)
        assert not given.new
        assert given.run.id == run.id

    road.held_pool.release()
    road.until(road.at_rest)
    assert len(road.runs()) == 1


def test_asking_never_skips_a_block(tmp_path: Path) -> None:
    """The answer is the block, with its remedy, and no row is made."""
    road = Road(tmp_path)
    answered(road, road.status.pause(TRIPS, reason="migration"))

    answer = ask(road)

    assert answer == Blocked(reason="paused: migration", remedy="resume it")
    assert road.runs() == []


def test_asking_is_answered_from_the_table_as_it_is_now(tmp_path: Path) -> None:
    """A plan that has appeared since the last look is taken up, not passed over."""
    road = Road(tmp_path)
    road.for_a_while(timedelta(seconds=10))
    road.lake.write()
    theirs = road.lake.plan_compaction()

    answer = ask(road)

    assert isinstance(answer, Blocked)
    assert f"plan {theirs} was made by a writer" in answer.reason


def test_asking_for_a_table_that_cannot_be_read_tells_why(tmp_path: Path) -> None:
    """The error is the answer; the control thread goes on."""
    road = Road(tmp_path)
    (road.lake.folder / "fake.json").unlink()

    with pytest.raises(PermanentError, match="holds no fake table"):
        ask(road)

    road.turn()


def test_somebody_who_no_longer_waits_for_an_answer_does_no_harm(tmp_path: Path) -> None:
    """A client that went away leaves its request cancelled: nothing is started for it, and the road goes on."""
    road = Road(tmp_path)
    road.write(1)
    run, pause = road.status.request_run(TRIPS, Service.COMPACTION, by="gone"), road.status.pause(None, reason="gone")
    assert run.cancel()
    assert pause.cancel()

    road.for_a_while()

    assert road.runs() == []
    assert road.store.pauses() == {}


# -- pauses


def test_a_paused_table_starts_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    """Neither by its policy nor from its queue; resuming looks at it at once."""
    road = Road(tmp_path)
    answered(road, road.status.pause(TRIPS, reason="migration"))
    road.write(3)
    road.for_a_while(timedelta(minutes=1))
    assert road.runs() == []
    assert road.store.decisions(TRIPS)[0].reason == "paused: migration"

    answered(road, road.status.resume(TRIPS))

    road.until(lambda: road.states() == [RunState.SUCCEEDED], within=timedelta(seconds=10))


def test_pausing_everything_stops_every_table(tmp_path: Path) -> None:
    """And ends for every table at once."""
    names = [TableId("a"), TableId("b")]
    road = Road(tmp_path, names=names)
    answered(road, road.status.pause(None, reason="maintenance"))
    for name in names:
        road.write(3, name)
    road.for_a_while()
    assert road.runs() == []

    answered(road, road.status.resume(None))

    road.until(lambda: road.states() == [RunState.SUCCEEDED] * 2, within=timedelta(seconds=10))


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_pause_lets_the_step_end_and_refuses_the_next(tmp_path: Path, step: Step) -> None:
    """What was begun stays pending, and is completed after the pause."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(step)
    answered(road, road.status.pause(TRIPS, reason="migration"))
    road.held_pool.release()
    road.until(lambda: road.states() == [RunState.CANCELLED])
    assert road.runs()[0].outcome == "paused: migration"
    road.for_a_while()
    assert road.lake.log_files == 3

    answered(road, road.status.resume(TRIPS))

    road.until(lambda: road.lake.log_files == 0)
    assert len(road.completed(Service.COMPACTION)) == 1


def test_a_pause_lets_a_commit_end(tmp_path: Path) -> None:
    """What commits now may finish."""
    road = Road(tmp_path)
    road.write(3)
    road.until_executing(Step.COMMIT)
    answered(road, road.status.pause(TRIPS, reason="migration"))
    road.held_pool.release()

    road.until(lambda: road.states() == [RunState.SUCCEEDED])


# -- the end


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_draining_lets_what_is_being_executed_finish_and_starts_nothing(tmp_path: Path, step: Step) -> None:
    """The run under way is committed; a table that became due meanwhile waits for the next daemon."""
    other = TableId("orders")
    road = Road(tmp_path, names=["trips", "orders"])
    road.write(3)
    road.until_executing(step)
    road.daemon.stop()
    road.held_pool.release()
    road.write(3, other)

    road.daemon.run()

    assert road.states(table=TRIPS) == [RunState.SUCCEEDED]
    assert road.lakes[TRIPS].log_files == 0
    assert road.states(table=other) in ([], [RunState.QUEUED])
    assert road.pool.room().slots == 0

    road.compose()
    road.until(lambda: road.states(table=other) == [RunState.SUCCEEDED])


@pytest.mark.timeout(30)
def test_draining_plans_nothing_any_more(tmp_path: Path) -> None:
    """A run that has not planned yet steps back."""
    road = Road(tmp_path)
    road.write(3)
    road.until(lambda: road.states() == [RunState.RUNNING])  # its first question lies in the inbox
    road.daemon.stop()

    road.daemon.run()

    assert road.states() == [RunState.CANCELLED]
    assert road.runs()[0].outcome == "the daemon is draining"
    assert road.completed(Service.COMPACTION) == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize("drain", [timedelta(0), timedelta(minutes=1)])
def test_what_does_not_finish_in_time_is_cut_off_and_stays_resumable(tmp_path: Path, drain: timedelta) -> None:
    """The daemon ends whatever a worker is doing; the next one completes the very same instant."""
    road = Road(tmp_path, drain=drain)
    road.write(3)
    run = road.until_executing(Step.EXECUTE)
    road.stop()
    assert road.states()[0] is RunState.CANCELLED
    assert road.lake.log_files == 3

    road.compose()
    road.until(lambda: road.states() == [RunState.CANCELLED, RunState.SUCCEEDED])

    settled, heir = road.runs()
    assert settled.id == run.id
    assert heir.instant == settled.instant


@pytest.mark.timeout(30)
def test_stopping_from_another_thread_ends_the_daemon(tmp_path: Path) -> None:
    """Also while the control thread sleeps: it is woken, drains, and returns."""
    road = Road(tmp_path)
    control = threading.Thread(target=road.daemon.run)
    control.start()

    road.daemon.stop()

    control.join(20)
    assert not control.is_alive()


# -- another configuration after a restart


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PLAN])
def test_a_queued_run_is_not_started_on_a_table_that_is_no_longer_ours_to_act_on(tmp_path: Path, mode: Mode) -> None:
    """Trust can be taken back: what an earlier daemon queued is written off."""
    road = Road(tmp_path, slots=0)
    road.write(3)
    road.until(lambda: road.states() == [RunState.QUEUED])

    road.mode, road.slots = mode, 4
    road.compose()
    road.for_a_while()

    assert road.states() == [RunState.CANCELLED]
    assert road.lake.log_files == 3


def test_a_queued_run_of_a_policy_that_is_gone_is_written_off(tmp_path: Path) -> None:
    """Its service may run again when it has a policy again."""
    road = Road(tmp_path, slots=0, policies=COMPACT_AND_CLEAN)
    road.write(3)
    road.until(lambda: len(road.store.active()) == 2)

    road.policies, road.slots = {Service.COMPACTION: road.policies[Service.COMPACTION]}, 4
    road.compose()

    road.until(lambda: road.states() == [RunState.SUCCEEDED])
    assert road.states(Service.CLEAN) == [RunState.CANCELLED]
    assert road.store.active() == []
