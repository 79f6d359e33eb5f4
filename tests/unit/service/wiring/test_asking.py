"""What people ask of the daemon: runs, pauses, and that it stops."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.decision import Blocked, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness


def ask(
    harness: DaemonHarness, service: Service = Service.COMPACTION
) -> RunGiven | Blocked | NotDue | WouldRun | DoesNotApply:
    """Ask for a run of trips as the API does."""
    return harness.answered(harness.status.commands.request_run(TRIPS, service, by="a person"))


# -- runs


def test_asking_skips_the_trigger(tmp_path: Path) -> None:
    """One commit is enough where somebody wants it; the row says who."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)

    given = ask(harness)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])

    assert isinstance(given, RunGiven)
    assert given.new
    (run,) = harness.runs()
    assert (run.id, run.requested_by, run.reason) == (given.run.id, "a person", "requested manually")
    assert harness.lake.log_files == 0


def test_asking_for_a_service_without_a_policy_harms_nobody(tmp_path: Path) -> None:
    """The asker hears what is missing; the control thread turns on."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)

    with pytest.raises(PermanentError, match="has no policy for clustering"):
        ask(harness, Service.CLUSTERING)

    harness.until(lambda: harness.lake.log_files == 0)


def test_asking_for_what_is_active_answers_with_that_run(tmp_path: Path) -> None:
    """However far it has come, and as often as it is asked for."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.COMMIT)

    for _ in range(2):
        given = ask(harness)
        assert isinstance(given, RunGiven)
        assert not given.new
        assert given.run.id == run.id

    harness.held_pool.release()
    harness.until(harness.at_rest)
    assert len(harness.runs()) == 1


def test_asking_is_answered_from_the_table_as_it_is_now(tmp_path: Path) -> None:
    """A plan that has appeared since the last look is taken up, not passed over."""
    harness = DaemonHarness(tmp_path)
    harness.for_a_while(timedelta(seconds=10))
    harness.lake.write()
    theirs = harness.lake.plan_compaction()

    answer = ask(harness)

    assert isinstance(answer, Blocked)
    assert f"plan {theirs} was made by a writer" in answer.reason


def test_asking_for_a_table_that_cannot_be_read_tells_why(tmp_path: Path) -> None:
    """The error is the answer; the control thread goes on."""
    harness = DaemonHarness(tmp_path)
    (harness.lake.folder / "fake.json").unlink()

    with pytest.raises(PermanentError, match="holds no fake table"):
        ask(harness)

    harness.turn()


def test_somebody_who_no_longer_waits_for_an_answer_does_no_harm(tmp_path: Path) -> None:
    """A client that went away leaves its request cancelled: nothing is started for it, and the daemon goes on."""
    harness = DaemonHarness(tmp_path)
    harness.write(1)
    run, pause = (
        harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="gone"),
        harness.status.commands.pause(None, reason="gone"),
    )
    assert run.cancel()
    assert pause.cancel()

    harness.for_a_while()

    assert harness.runs() == []
    assert harness.store.pauses() == {}


# -- pauses


def test_a_paused_table_starts_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    """Neither by its policy nor from its queue; resuming looks at it at once."""
    harness = DaemonHarness(tmp_path)
    harness.answered(harness.status.commands.pause(TRIPS, reason="migration"))
    harness.write(3)
    harness.for_a_while(timedelta(minutes=1))
    assert harness.runs() == []
    assert harness.store.decisions(TRIPS)[0].reason == "paused: migration"

    harness.answered(harness.status.commands.resume(TRIPS))

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED], within=timedelta(seconds=10))


def test_pausing_everything_stops_every_table(tmp_path: Path) -> None:
    """And ends for every table at once."""
    names = [TableId("a"), TableId("b")]
    harness = DaemonHarness(tmp_path, names=names)
    harness.answered(harness.status.commands.pause(None, reason="maintenance"))
    for name in names:
        harness.write(3, name)
    harness.for_a_while()
    assert harness.runs() == []

    harness.answered(harness.status.commands.resume(None))

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED] * 2, within=timedelta(seconds=10))


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_pause_lets_the_step_end_and_refuses_the_next(tmp_path: Path, step: Step) -> None:
    """What was begun stays pending, and is completed after the pause."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until_executing(step)
    harness.answered(harness.status.commands.pause(TRIPS, reason="migration"))
    harness.held_pool.release()
    harness.until(lambda: harness.states() == [RunState.YIELDED])
    assert harness.runs()[0].outcome == "paused: migration"
    harness.for_a_while()
    assert harness.lake.log_files == 3

    harness.answered(harness.status.commands.resume(TRIPS))

    harness.until(lambda: harness.lake.log_files == 0)
    assert len(harness.completed(Service.COMPACTION)) == 1


# -- the end


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_draining_lets_what_is_being_executed_finish_and_starts_nothing(tmp_path: Path, step: Step) -> None:
    """The run under way is committed; a table that became due meanwhile waits for the next daemon."""
    other = TableId("orders")
    harness = DaemonHarness(tmp_path, names=["trips", "orders"])
    harness.write(3)
    harness.until_executing(step)
    harness.daemon.stop()
    harness.held_pool.release()
    harness.write(3, other)

    harness.daemon.run()

    assert harness.states(table=TRIPS) == [RunState.SUCCEEDED]
    assert harness.lakes[TRIPS].log_files == 0
    assert harness.states(table=other) in ([], [RunState.QUEUED])
    assert harness.pool.capacity().slots == 0

    harness.compose()
    harness.until(lambda: harness.states(table=other) == [RunState.SUCCEEDED])


@pytest.mark.timeout(30)
def test_draining_plans_nothing_any_more(tmp_path: Path) -> None:
    """A run that has not planned yet steps back."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.RUNNING])  # its first question is in the command queue
    harness.daemon.stop()

    harness.daemon.run()

    assert harness.states() == [RunState.YIELDED]
    assert harness.runs()[0].outcome == "the daemon is draining"
    assert harness.completed(Service.COMPACTION) == []


@pytest.mark.timeout(30)
def test_stopping_from_another_thread_ends_the_daemon(tmp_path: Path) -> None:
    """Also while the control thread sleeps: it is woken, drains, and returns."""
    harness = DaemonHarness(tmp_path)
    control = threading.Thread(target=harness.daemon.run)
    control.start()

    harness.daemon.stop()

    control.join(20)
    assert not control.is_alive()


# -- another configuration after a restart


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PLAN])
def test_a_queued_run_is_not_started_on_a_table_that_is_no_longer_ours_to_act_on(tmp_path: Path, mode: Mode) -> None:
    """Trust can be taken back: what an earlier daemon queued is written off."""
    harness = DaemonHarness(tmp_path, slots=0)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.QUEUED])

    harness.mode, harness.slots = mode, 4
    harness.compose()
    harness.for_a_while()

    assert harness.states() == [RunState.CANCELLED]
    assert harness.lake.log_files == 3


def test_a_queued_run_of_a_policy_that_is_gone_is_written_off(tmp_path: Path) -> None:
    """Its service may run again when it has a policy again."""
    harness = DaemonHarness(tmp_path, slots=0, policies=COMPACT_AND_CLEAN)
    harness.write(3)
    harness.until(lambda: len(harness.store.active()) == 2)

    harness.policies, harness.slots = {Service.COMPACTION: harness.policies[Service.COMPACTION]}, 4
    harness.compose()

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
    assert harness.states(Service.CLEAN) == [RunState.CANCELLED]
    assert harness.store.active() == []
