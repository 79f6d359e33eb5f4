"""When a clean runs: at start-up, beside a compaction or after it, and first of all where one was left half-way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits, NumRewrites
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT, COMPACT_AND_CLEAN, TRIPS, DaemonHarness, prepare

FOLLOWING = {**COMPACT, Service.CLEAN: Policy(trigger=NumRewrites(at_least=1), beside=False)}


def left_half_way(harness: DaemonHarness) -> str:
    """Leave a clean of ours half-way, as a killed daemon does; its last heartbeat is long ago."""
    plan = harness.lake.plan_clean(run=RunId("of an earlier daemon"))
    assert plan is not None
    harness.lake.start(plan)
    harness.lake.fall_silent(plan)
    return plan


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_clean_that_was_left_half_way_is_finished_before_the_next_commit(tmp_path: Path, slots: int) -> None:
    """At start-up it goes first, and the compaction's commit waits for it, in every pool."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(harness.lake)
    plan = left_half_way(harness)

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    assert harness.completed(Service.CLEAN)[0].time == plan
    lines = harness.recorded.lines
    assert lines.index("clean SUCCEEDED") < lines.index("compaction commit Granted")


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_clean_whose_daemon_was_killed_is_finished_before_the_next_commit(tmp_path: Path, slots: int) -> None:
    """Also while its run rests after the loss: a compaction that is due meanwhile does not overtake it."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(harness.lake)
    run = harness.until_executing(Step.COMMIT, Service.CLEAN)
    assert run.instant is not None
    harness.lake.start(run.instant)
    harness.lake.fall_silent(run.instant)

    harness.compose()
    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    assert harness.completed(Service.CLEAN)[0].time == run.instant
    lines = harness.recorded.lines
    assert lines.index("clean SUCCEEDED") < lines.index("compaction commit Granted")


def test_a_clean_that_only_a_person_can_let_go_on_holds_up_no_compaction(tmp_path: Path) -> None:
    """One in quarantine may stay there for days: its table is compacted meanwhile."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.for_a_while(timedelta(seconds=10))
    harness.status._statuses._requests._service_states.quarantine(TRIPS, Service.CLEAN, "it broke")
    prepare(harness.lake)
    left_half_way(harness)
    harness.commands.mark_dirty(TRIPS)

    harness.until(lambda: harness.lake.log_files == 0)

    assert harness.completed(Service.CLEAN) == []


def test_a_clean_of_the_writers_that_is_in_flight_is_theirs(tmp_path: Path) -> None:
    """Nobody of us was at it, so no commit of ours waits for us to finish it."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    prepare(harness.lake)
    theirs = harness.lake.plan_clean()
    assert theirs is not None
    harness.lake.start(theirs)

    harness.until(lambda: harness.lake.log_files == 0, within=timedelta(seconds=15))


# -- after each compaction instead of beside it


def test_a_clean_that_may_not_run_beside_follows_each_compaction(tmp_path: Path) -> None:
    """Once for each, and not for each commit."""
    harness = DaemonHarness(tmp_path, policies=FOLLOWING)
    for number in range(1, 4):
        harness.write(2)
        harness.for_a_while(timedelta(minutes=1))
        assert len(harness.runs(Service.CLEAN)) == number - 1
        harness.write(1)
        harness.for_a_while(timedelta(minutes=1))
        assert harness.states() == harness.states(Service.CLEAN) == [RunState.SUCCEEDED] * number
        assert harness.lake.file_versions == 1


def test_a_clean_that_may_not_run_beside_waits_for_the_compaction_to_end(tmp_path: Path) -> None:
    """And the next compaction waits for the clean."""
    harness = DaemonHarness(
        tmp_path, policies={**FOLLOWING, Service.COMPACTION: Policy(trigger=NumCommits(at_least=1))}
    )
    prepare(harness.lake)
    together = set()
    for service, step in ((Service.COMPACTION, Step.EXECUTE), (Service.CLEAN, Step.COMMIT)):
        harness.held_pool.hold(service, step)
    for number in range(300):
        harness.turn()
        together.add(frozenset(run.service for run in harness.daemon._active_runs.under_way()))
        if number % 20 == 0:
            harness.write(1)
        if number % 10 == 9:
            under_way, harness.held_pool._under_way = harness.held_pool._under_way, []
            for answer in under_way:
                super(type(harness.held_pool), harness.held_pool).answer(*answer)

    assert together == {frozenset(), frozenset({Service.COMPACTION}), frozenset({Service.CLEAN})}
