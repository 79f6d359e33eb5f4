"""The daemon, end to end: from a dirty table to a settled run."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Granted, Refused
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import Mode, Policy, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, HarnessClock, prepare
from tests.support.doubles.fake.programs import LOG_FILE_BYTES
from tests.support.doubles.fake_pool import FakePool


def test_a_dirty_table_is_compacted_and_its_run_is_in_the_store(tmp_path: Path) -> None:
    """From the hook to the settled row: with its instant, its epoch, its figures, and the reason it was due."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])

    (run,) = harness.runs()
    assert harness.lake.log_files == 0
    assert harness.lake.rows == 3
    assert [i.time for i in harness.completed(Service.COMPACTION)] == [run.instant]
    assert (run.reason, run.requested_by, run.epoch) == ("3 of 3 commits since the last one", "policy", 1)
    assert run.outcome == "completed"
    took = {"plan_seconds": 0.0, "execute_seconds": 0.0, "commit_seconds": 0.0}  # the test's clock stands still
    assert run.figures == {"log_files_merged": 3, "bytes_rewritten": 3 * LOG_FILE_BYTES, **took}
    assert run.started_at is not None
    assert run.ended_at is not None
    assert harness.recorded.lines == [
        "compaction requested",
        "compaction started",
        "compaction plan Granted",
        "compaction execute Granted",
        "compaction commit Granted",
        "compaction SUCCEEDED",
    ]


def test_a_lost_hook_costs_one_poll_interval(tmp_path: Path) -> None:
    """Without any hook the table is found changed by polling."""
    harness = DaemonHarness(tmp_path)
    harness.for_a_while(timedelta(seconds=20))
    for _ in range(3):
        harness.lake.write()
    changed_at = harness.clock.now()

    harness.until(lambda: bool(harness.runs()))

    assert harness.clock.now() - changed_at < timedelta(seconds=12)


def test_a_table_that_is_not_due_is_left_alone_and_says_why(tmp_path: Path) -> None:
    """The decision is in the store, where people can ask for it; nothing is started."""
    harness = DaemonHarness(tmp_path)
    harness.write(2)
    harness.for_a_while()

    assert harness.runs() == []
    (decision,) = harness.store.decisions(TRIPS)
    assert (decision.decision, decision.reason) == ("NotDue", "2 of 3 commits since the last one")


def test_a_decision_is_told_when_it_is_new_and_not_again(tmp_path: Path) -> None:
    """However often the table is looked at."""
    harness = DaemonHarness(tmp_path)
    harness.write(2)
    harness.for_a_while(timedelta(minutes=2))

    assert [decision.reason for _, decision in harness.recorded.decisions] == ["2 of 3 commits since the last one"]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PLAN])
def test_a_table_that_is_not_trusted_to_us_is_never_touched(tmp_path: Path, mode: Mode) -> None:
    """Not by its policy, and not by asking."""
    harness = DaemonHarness(tmp_path, mode=mode)
    harness.write(5)
    before = harness.view().timeline
    harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="a person")
    harness.for_a_while()

    assert harness.runs() == []
    assert harness.view().timeline == before


class AskingPool(FakePool):
    """Looks into the store whenever the pool hears something of a run."""

    harness: DaemonHarness

    def submit(self, assignment: Assignment) -> None:
        run = self.harness.store.run(assignment.run)
        assert run is not None, "the pool hears of a run that is in no row"
        assert (run.state, run.epoch) == (RunState.RUNNING, assignment.epoch)
        super().submit(assignment)

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        row = self.harness.store.run(run)
        assert row is not None
        assert row.step is step, "the permit is given before it is written down"
        assert (row.instant is None) is (step is Step.PLAN)
        assert (row.state is RunState.COMMITTING) is (step is Step.COMMIT)
        super().answer(run, step, permit)


def test_everything_is_written_down_before_the_pool_hears_of_it(tmp_path: Path) -> None:
    """The row before the submission, the plan's instant before the next permit, each permit before its answer."""
    harness = DaemonHarness(tmp_path)
    pool = AskingPool(slots=2, clock=harness.clock)
    pool.harness = harness
    harness.compose(pool)
    harness.write(3)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


# -- a clean beside a compaction


def ready_for_both(folder: Path, *, slots: int = 4) -> DaemonHarness:
    """Make a daemon whose table has an old version to clean and log files to compact, both due."""
    harness = DaemonHarness(folder, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(harness.lake)
    harness.commands.mark_dirty(TRIPS)
    return harness


def test_a_clean_runs_beside_the_compaction_whose_commit_waits_for_it(tmp_path: Path) -> None:
    """Both are under way at once; the commit says what it waits for, and follows when the clean has ended."""
    harness = ready_for_both(tmp_path)
    harness.held_pool.hold(Service.CLEAN, Step.COMMIT)

    harness.until(lambda: harness.at(Step.COMMIT) and bool(harness.held_pool.under_way))
    harness.for_a_while(timedelta(seconds=2))

    (compaction,), (clean,) = harness.runs(), harness.runs(Service.CLEAN)
    assert harness.status.waiting() == {compaction.id: f"clean {clean.id} is executing, and the commit waits for it"}
    assert harness.lake.log_files == 3

    harness.held_pool.release()
    harness.until(harness.at_rest)

    assert harness.states() == harness.states(Service.CLEAN) == [RunState.SUCCEEDED]
    assert harness.recorded.lines.index("clean SUCCEEDED") < harness.recorded.lines.index("compaction commit Granted")
    assert (harness.lake.log_files, harness.lake.file_versions) == (0, 2)


def test_no_new_clean_starts_while_a_commit_is_under_way(tmp_path: Path) -> None:
    """It stays in the queue until the commit has ended."""
    after_seven = Policy(trigger=NumCommits(at_least=7))
    harness = DaemonHarness(tmp_path, policies={**COMPACT_AND_CLEAN, Service.CLEAN: after_seven})
    prepare(harness.lake)
    harness.until_executing(Step.COMMIT)

    harness.write(1)  # the seventh
    harness.for_a_while()
    assert harness.states(Service.CLEAN) == [RunState.QUEUED]

    harness.held_pool.release()
    harness.until(lambda: harness.states() == harness.states(Service.CLEAN) == [RunState.SUCCEEDED])


# -- writers win


def test_a_plan_waits_for_a_moment_between_writes(tmp_path: Path) -> None:
    """While a write is in flight the run stands at its first question; when it has ended, it goes on."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    write = harness.lake.begin_write()

    harness.until(lambda: harness.at(Step.PLAN))
    for _ in range(20):
        harness.clock.advance(timedelta(seconds=5))
        harness.lake.beat(write)
        harness.turn()
    assert list(harness.status.waiting().values()) == [f"write {write} is in flight"]

    harness.lake.commit_write(write)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


def test_a_write_that_died_is_not_waited_for(tmp_path: Path) -> None:
    """Its heartbeat runs out, and the plan is made."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.lake.begin_write()

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED], within=timedelta(seconds=20))


def test_a_writer_that_never_ends_makes_a_commit_yield_and_come_back(tmp_path: Path) -> None:
    """After its timeout the run is cancelled; the plan stays, rests, and is completed by a later run."""
    harness = DaemonHarness(tmp_path)
    write = harness.lake.begin_write()
    harness.write(3)
    harness.until(lambda: harness.at(Step.PLAN))
    harness.held_pool.hold(Service.COMPACTION, Step.EXECUTE)

    def beating() -> bool:
        harness.lake.beat(write)
        return RunState.YIELDED in harness.states()

    harness.clock.advance(harness.limits.max_wait_for_writers)
    harness.lake.beat(write)
    harness.until(lambda: bool(harness.held_pool.under_way))
    harness.held_pool.release()
    harness.until(lambda: harness.at(Step.COMMIT))
    harness.clock.advance(harness.limits.max_wait_to_commit)
    harness.until(beating)
    (first,) = harness.runs()
    assert first.outcome == f"write {write} is in flight and would fail by this commit: not after 10m either"
    assert harness.lake.log_files == 3

    harness.lake.commit_write(write)
    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    second = harness.runs()[1]
    assert (second.instant, second.epoch) == (first.instant, 2)


# -- workers that die


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_lost_workers_plan_is_taken_up_by_a_run_with_a_higher_epoch(tmp_path: Path, step: Step) -> None:
    """The worker died after the step and before it could say so: the run has failed, its instant is completed."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(step)
    harness.pool.kill(run.id, after=step)
    harness.held_pool.release()

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    lost, heir = harness.runs()
    (compaction,) = harness.completed(Service.COMPACTION)
    assert (lost.state, heir.state) == (RunState.FAILED, RunState.SUCCEEDED)
    assert lost.outcome == "the fake worker was killed; its plan is still pending, and the next run continues it"
    assert heir.reason == f"Lakewarden's plan {compaction.time} waits to be completed"
    assert (heir.instant, heir.epoch) == (compaction.time, 2)
    assert harness.lake.rows == 3


def test_a_worker_that_dies_after_its_commit_has_succeeded(tmp_path: Path) -> None:
    """The timeline says so, and nothing is run again."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.COMMIT)
    harness.pool.kill(run.id, after=Step.COMMIT)
    harness.held_pool.release()

    harness.until(harness.at_rest)
    harness.for_a_while()

    (run,) = harness.runs()
    assert run.state is RunState.SUCCEEDED
    assert run.outcome == "the timeline shows it completed (the fake worker was killed)"


def test_a_worker_that_dies_before_it_has_planned_leaves_nothing(tmp_path: Path) -> None:
    """The next run plans anew."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.pool.kill(harness.until_executing(Step.PLAN).id)
    harness.held_pool.release()

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    assert harness.runs()[0].outcome == "the fake worker was killed; it left no plan behind"
    assert harness.states() == [RunState.FAILED, RunState.SUCCEEDED]
    assert len(harness.completed(Service.COMPACTION)) == 1


# -- tables that change under us


def test_an_idle_table_is_not_asked_again_before_something_is_written(tmp_path: Path) -> None:
    """A run that found nothing to do succeeds once, and no second one follows it."""
    harness = DaemonHarness(tmp_path, policies={Service.CLEAN: COMPACT_AND_CLEAN[Service.CLEAN]})
    harness.write(3)
    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED])
    harness.for_a_while(timedelta(minutes=5))

    (run,) = harness.runs(Service.CLEAN)
    assert run.outcome == "nothing to do: the format found nothing to plan"
    harness.write(3)
    harness.until(lambda: len(harness.runs(Service.CLEAN)) == 2)


def test_work_that_appears_while_a_run_finds_none_is_not_forgotten(tmp_path: Path) -> None:
    """What came between the plan and the end of the run was not looked at, and makes the service due again."""
    harness = DaemonHarness(tmp_path, policies={Service.CLEAN: Policy(trigger=NumCommits(at_least=1))})
    harness.write(3)
    harness.until_executing(Step.PLAN, Service.CLEAN)
    harness.held_pool.release()  # it has found nothing; nobody has heard of it yet
    prepare(harness.lake)
    assert harness.lake.file_versions == 2

    harness.until(lambda: harness.lake.file_versions == 1)


def test_a_hook_is_believed_where_the_token_shows_nothing(tmp_path: Path) -> None:
    """On a storage whose clock ticks slowly a change may leave no trace in the token; a hook makes the daemon look."""
    clock = HarnessClock(datetime.now(UTC) + timedelta(days=1))
    harness = DaemonHarness(tmp_path, clock=clock)
    harness.write(2)
    harness.for_a_while()
    timeline = harness.lake.folder / "timeline"
    before = timeline.stat()
    harness.lake.write()
    os.utime(timeline, ns=(before.st_atime_ns, before.st_mtime_ns))
    harness.for_a_while(timedelta(minutes=1))
    assert harness.runs() == []

    harness.commands.mark_dirty(TRIPS)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED], within=timedelta(seconds=10))


def test_ten_thousand_hooks_cost_one_look(tmp_path: Path) -> None:
    """A flood changes nothing but what is looked at next."""
    harness = DaemonHarness(tmp_path)
    harness.for_a_while(timedelta(seconds=10))
    for _ in range(10_000):
        harness.commands.mark_dirty(TRIPS)
    decisions = len(harness.recorded.decisions)

    harness.turn()

    assert len(harness.recorded.decisions) == decisions
    assert not harness.commands._dirty


def test_tables_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """While one table's commit waits for a writer, all others are served."""
    names = [TableId(name) for name in ("a", "b", "c", "d", "e")]
    harness = DaemonHarness(tmp_path, names=names)
    for name in names:
        harness.write(3, name)
    write = harness.lakes[names[0]].begin_write()

    def served() -> bool:
        harness.lakes[names[0]].beat(write)
        return all(harness.lakes[name].log_files == 0 for name in names[1:])

    harness.until(served)

    assert harness.lakes[names[0]].log_files == 3
