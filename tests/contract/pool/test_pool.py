"""What every pool promises the daemon, however it executes the runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import (
    Asked,
    Blame,
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    NothingToDo,
    Refused,
    Started,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step

if TYPE_CHECKING:
    from tests.contract.pool.conftest import Harness


def test_a_run_asks_leave_for_each_step_and_ends_once(harness: Harness) -> None:
    """The events are the start, three questions in order and one ending. The ending is the last event of the run."""
    table = harness.table(writes=3)
    run = harness.submit(table, "granted")

    asked = harness.advance(run, to=Step.COMMIT)
    assert table.log_files == 3  # executed, not committed
    harness.pool.answer(run, Step.COMMIT, Granted())
    ended = harness.next(Ended, run)

    assert isinstance(ended.outcome, Succeeded)
    assert ended.outcome.figures["log_files_merged"] == 3
    assert {"plan_seconds", "execute_seconds", "commit_seconds"} <= set(ended.outcome.figures)
    assert table.log_files == 0
    plan = asked.plan
    started, *rest = harness.of(run)
    assert isinstance(started, Started)
    assert rest == [
        Asked(run=run, step=Step.PLAN, plan=None),
        Asked(run=run, step=Step.EXECUTE, plan=plan),
        Asked(run=run, step=Step.COMMIT, plan=plan),
        ended,
    ]


@pytest.mark.parametrize("step", Step)
def test_a_refused_step_is_not_taken(harness: Harness, step: Step) -> None:
    """If a step is refused, the run yields with the reason, and commits nothing. Without a permit to plan, the timeline
    is not changed.
    """
    table = harness.table(writes=1)
    before = sorted(path.name for path in table.folder.rglob("*"))
    run = harness.submit(table, f"refused-{step}")

    harness.advance(run, to=step)
    harness.pool.answer(run, step, Refused(reason="a writer is busy"))

    assert harness.next(Ended, run).outcome == Yielded(reason="a writer is busy")
    assert table.log_files == 1
    assert step is not Step.PLAN or sorted(path.name for path in table.folder.rglob("*")) == before


def test_what_a_run_left_pending_is_taken_up_by_the_next(harness: Harness) -> None:
    """If a run gets a pending instant, it completes that instant and plans nothing of its own."""
    table = harness.table(writes=2)
    first = harness.submit(table, "leaves-it")
    plan = harness.advance(first, to=Step.COMMIT).plan
    harness.pool.answer(first, Step.COMMIT, Refused(reason="later"))
    harness.next(Ended, first)
    assert plan is not None

    second = harness.submit(table, "takes-it-up", instant=plan.instant)
    assert harness.advance(second, to=Step.COMMIT).plan == plan
    harness.pool.answer(second, Step.COMMIT, Granted())

    assert isinstance(harness.next(Ended, second).outcome, Succeeded)
    assert table.log_files == 0


def test_nothing_to_plan_is_a_good_ending(harness: Harness) -> None:
    """A table without work ends the run after its first permit."""
    run = harness.submit(harness.table(writes=0), "idle")

    harness.advance(run, to=Step.PLAN)
    harness.pool.answer(run, Step.PLAN, Granted())

    assert isinstance(harness.next(Ended, run).outcome, NothingToDo)


def test_an_error_of_the_program_ends_the_run_with_its_kind_and_step(harness: Harness) -> None:
    """A permanent error in a step is reported as such, with its step."""
    run = harness.submit(harness.table(), "no-such-plan", instant="99999999")

    harness.advance(run, to=Step.EXECUTE)
    harness.pool.answer(run, Step.EXECUTE, Granted())
    outcome = harness.next(Ended, run).outcome

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == (FailureKind.PERMANENT, Step.EXECUTE)
    assert "99999999" in outcome.reason


def test_a_pool_says_what_its_runs_do_and_forgets_the_ended_ones(harness: Harness) -> None:
    """A run is known by the step that it was permitted, with the size of its plan. An ended run is known no more."""
    run = harness.submit(harness.table(writes=3), "watched")
    asked = harness.advance(run, to=Step.COMMIT)
    assert asked.plan is not None
    until = time.monotonic() + 60
    while (doing := harness.pool.progress().get(run)) is None or doing.bytes is None:
        assert time.monotonic() < until
        time.sleep(0.01)

    assert (doing.run, doing.bytes) == (run, asked.plan.bytes)
    assert doing.step in (Step.EXECUTE, Step.COMMIT)  # the fake pool says the step that the run asks for

    harness.pool.answer(run, Step.COMMIT, Granted())
    harness.next(Ended, run)
    assert run not in harness.pool.progress()


def test_answers_without_a_question_are_ignored(harness: Harness) -> None:
    """An answer for a run that has ended, or without a question before it, changes nothing."""
    table = harness.table(writes=1)
    run = harness.submit(table, "asks-once")
    harness.advance(run, to=Step.PLAN)

    harness.pool.answer(RunId("never-seen"), Step.PLAN, Granted())
    harness.pool.answer(run, Step.COMMIT, Granted())
    harness.pool.answer(run, Step.PLAN, Granted())

    assert harness.next(Asked, run).step is Step.EXECUTE
    harness.pool.answer(run, Step.EXECUTE, Refused(reason="enough"))
    harness.next(Ended, run)
    harness.pool.answer(run, Step.EXECUTE, Granted())
    assert table.log_files == 1


def test_a_cancelled_run_yields(harness: Harness) -> None:
    """If a run is cancelled while it waits for an answer, it ends with the reason of the cancel."""
    table = harness.table(writes=1)
    run = harness.submit(table, "cancelled")
    harness.advance(run, to=Step.COMMIT)

    harness.pool.cancel(run, "the table is paused")
    harness.pool.cancel(RunId("never-seen"), "nobody")

    assert harness.next(Ended, run).outcome == Yielded(reason="the table is paused")
    assert table.log_files == 1


def test_a_full_pool_takes_no_more(harness: Harness) -> None:
    """A run beyond the slots is refused with a TemporaryError. A slot that becomes free takes a run again."""
    table = harness.table()
    first = harness.submit(table, "first")
    second = RunId("second")
    harness.pool.submit(harness.assignment(table, "second", service=Service.CLEAN))
    assert harness.pool.capacity().free == 0

    with pytest.raises(TemporaryError, match="no free slot"):
        harness.submit(table, "third")

    for run in (first, second):
        harness.advance(run, to=Step.PLAN)
        harness.pool.answer(run, Step.PLAN, Refused(reason="enough"))
        harness.next(Ended, run)
    assert harness.pool.capacity().free == harness.pool.capacity().slots
    assert harness.of(RunId("third")) == []


def test_a_run_whose_worker_dies_is_lost_once_and_can_be_taken_up(harness: Harness) -> None:
    """The loss is the last event of the run. The pool has room again, and another run finishes the plan."""
    table = harness.table(writes=2)
    run = harness.submit(table, "dies")
    plan = harness.advance(run, to=Step.COMMIT).plan
    assert plan is not None

    harness.kill(run)
    lost = harness.next(Lost, run)
    harness.pool.answer(run, Step.COMMIT, Granted())
    harness.until_room()

    assert harness.of(run)[-1] == lost
    assert lost.blame is Blame.ITS_OWN
    assert table.log_files == 2
    heir = harness.submit(table, "heir", instant=plan.instant)
    harness.advance(heir, to=Step.COMMIT)
    harness.pool.answer(heir, Step.COMMIT, Granted())
    assert isinstance(harness.next(Ended, heir).outcome, Succeeded)
    assert table.log_files == 0


def test_an_evicted_pool_loses_its_runs_for_no_fault_of_theirs_and_has_room_again(harness: Harness) -> None:
    """Each run is told that Lakewarden itself ended it. The tables are as the last step left them."""
    table = harness.table(writes=2)
    runs = [harness.submit(table, "evicted"), harness.submit(harness.table(), "evicted-beside")]
    for run in runs:
        harness.advance(run, to=Step.COMMIT)

    harness.pool.evict("the lease is lost")

    for run in runs:
        lost = harness.next(Lost, run)
        assert lost.blame is Blame.NOT_ITS
        assert "the lease is lost" in lost.reason
    harness.until_room()
    assert table.log_files == 2


def test_a_pool_lives_until_the_moment_it_was_told_and_no_longer(harness: Harness) -> None:
    """Until the moment a run works as any other. After it the run is lost without a strike, and the pool starts anew at
    a later moment.
    """
    clock = SystemClock()
    table = harness.table(writes=2)
    run = harness.submit(table, "out-of-time")
    harness.advance(run, to=Step.COMMIT)
    harness.pool.extend(clock.monotonic() + 2)
    time.sleep(2)
    harness.pool.answer(run, Step.COMMIT, Granted())

    assert harness.next(Lost, run).blame is Blame.NOT_ITS
    assert table.log_files == 2
    harness.pool.extend(clock.monotonic() + 3600)
    harness.until_room()


def test_closing_loses_what_is_running(harness: Harness) -> None:
    """When close returns, every run is lost and there is no room. This test is the last, for it closes the pool of the
    module.
    """
    run = harness.submit(harness.table(), "running")
    harness.advance(run, to=Step.EXECUTE)

    harness.pool.close()

    lost = harness.of(run)[-1]
    assert isinstance(lost, Lost)
    assert lost.blame is Blame.NOT_ITS
    assert harness.pool.capacity().slots == 0
    harness.pool.close()
