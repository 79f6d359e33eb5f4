"""When a clean runs: at start-up, beside a compaction or after it, and first of all where one was left half-way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits, NumRewrites
from lakewarden.service.model.run import RunState
from tests.support.road import COMPACT, COMPACT_AND_CLEAN, TRIPS, Road, prepare

FOLLOWING = {**COMPACT, Service.CLEAN: Policy(trigger=NumRewrites(at_least=1), beside=False)}


def left_half_way(road: Road) -> str:
    """Leave a clean of ours half-way, as a killed daemon does; its last heartbeat is long ago."""
    plan = road.lake.plan_clean(run=RunId("of an earlier daemon"))
    assert plan is not None
    road.lake.start(plan)
    road.lake.fall_silent(plan)
    return plan


def test_a_clean_that_is_due_starts_with_the_daemon(tmp_path: Path) -> None:
    """Without a hook and without a commit, within the time in which the first looks are spread."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN)
    prepare(road.lake)

    road.until(lambda: road.lake.file_versions == 1, within=timedelta(seconds=10))


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_clean_that_was_left_half_way_is_finished_before_the_next_commit(tmp_path: Path, slots: int) -> None:
    """At start-up it goes first, and the compaction's commit waits for it, in every pool."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(road.lake)
    plan = left_half_way(road)

    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    assert road.completed(Service.CLEAN)[0].time == plan
    lines = road.diary.lines
    assert lines.index("clean SUCCEEDED") < lines.index("compaction commit Granted")


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_clean_whose_daemon_was_killed_is_finished_before_the_next_commit(tmp_path: Path, slots: int) -> None:
    """Also while its run rests after the loss: a compaction that is due meanwhile does not overtake it."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(road.lake)
    run = road.until_executing(Step.COMMIT, Service.CLEAN)
    assert run.instant is not None
    road.lake.start(run.instant)
    road.lake.fall_silent(run.instant)

    road.compose()
    road.until(lambda: road.lake.log_files == 0 and road.at_rest())

    assert road.completed(Service.CLEAN)[0].time == run.instant
    lines = road.diary.lines
    assert lines.index("clean SUCCEEDED") < lines.index("compaction commit Granted")


def test_a_clean_that_only_a_person_can_let_go_on_holds_up_no_compaction(tmp_path: Path) -> None:
    """One in quarantine may stay there for days: its table is compacted meanwhile."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN)
    road.for_a_while(timedelta(seconds=10))
    road.status._requests._standings.quarantine(TRIPS, Service.CLEAN, "it broke")
    prepare(road.lake)
    left_half_way(road)
    road.inbox.mark_dirty(TRIPS)

    road.until(lambda: road.lake.log_files == 0)

    assert road.completed(Service.CLEAN) == []


def test_a_clean_of_the_writers_that_is_in_flight_is_theirs(tmp_path: Path) -> None:
    """Nobody of us was at it, so no commit of ours waits for us to finish it."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN)
    prepare(road.lake)
    theirs = road.lake.plan_clean()
    assert theirs is not None
    road.lake.start(theirs)

    road.until(lambda: road.lake.log_files == 0, within=timedelta(seconds=15))


# -- after each compaction instead of beside it


def test_a_clean_that_may_not_run_beside_follows_each_compaction(tmp_path: Path) -> None:
    """Once for each, and not for each commit."""
    road = Road(tmp_path, policies=FOLLOWING)
    for number in range(1, 4):
        road.write(2)
        road.for_a_while(timedelta(minutes=1))
        assert len(road.runs(Service.CLEAN)) == number - 1
        road.write(1)
        road.for_a_while(timedelta(minutes=1))
        assert road.states() == road.states(Service.CLEAN) == [RunState.SUCCEEDED] * number
        assert road.lake.file_versions == 1


def test_a_clean_that_may_not_run_beside_waits_for_the_compaction_to_end(tmp_path: Path) -> None:
    """And the next compaction waits for the clean."""
    road = Road(tmp_path, policies={**FOLLOWING, Service.COMPACTION: Policy(trigger=NumCommits(at_least=1))})
    prepare(road.lake)
    together = set()
    for service, step in ((Service.COMPACTION, Step.EXECUTE), (Service.CLEAN, Step.COMMIT)):
        road.held_pool.hold(service, step)
    for number in range(300):
        road.turn()
        together.add(frozenset(run.service for run in road.daemon._book.under_way()))
        if number % 20 == 0:
            road.write(1)
        if number % 10 == 9:
            under_way, road.held_pool._under_way = road.held_pool._under_way, []
            for answer in under_way:
                super(type(road.held_pool), road.held_pool).answer(*answer)

    assert together == {frozenset(), frozenset({Service.COMPACTION}), frozenset({Service.CLEAN})}
