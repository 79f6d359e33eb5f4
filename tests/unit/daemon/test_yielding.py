"""Clustering never waits with a plan, and never beside anything: its plan makes writers fail."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Step
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.road import COMPACT_AND_CLEAN, TRIPS, HoldingPool, Road, prepare

CLUSTER = {Service.CLUSTERING: Policy(trigger=NumCommits(at_least=3))}


def a_road(folder: Path) -> Road:
    """Make a road whose table has something to cluster, and is due for it."""
    road = Road(folder, policies=CLUSTER)
    prepare(road.lake)
    return road


def nothing_is_pending(road: Road) -> bool:
    """Whether no plan of a clustering stands in a writer's way."""
    return road.view().timeline.pending(Service.CLUSTERING) == ()


def test_a_clustering_runs_where_nobody_writes(tmp_path: Path) -> None:
    """Planned, executed and committed in one go."""
    road = a_road(tmp_path)

    road.until(lambda: road.states(Service.CLUSTERING) == [RunState.SUCCEEDED])

    assert len(road.completed(Service.CLUSTERING)) == 1


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_write_that_begins_after_the_plan_ends_the_clustering_at_once(tmp_path: Path, step: Step) -> None:
    """Its plan is withdrawn in the same turn: it does not stand at a question."""
    road = a_road(tmp_path)
    road.until_executing(step, Service.CLUSTERING)
    road.lake.begin_write()
    road.held_pool.release()
    assert not nothing_is_pending(road)

    road.until(lambda: road.states(Service.CLUSTERING) == [RunState.CANCELLED], within=timedelta(seconds=1))

    assert nothing_is_pending(road)


def test_a_clustering_is_not_planned_beside_a_writer_that_never_pauses(tmp_path: Path) -> None:
    """After its patience it steps back, where a compaction would go on beside the writer."""
    road = a_road(tmp_path)
    write = road.lake.begin_write()
    road.until(lambda: road.at(Step.PLAN, Service.CLUSTERING))
    road.clock.advance(road.limits.writer_patience)
    road.lake.beat(write)

    road.until(lambda: road.states(Service.CLUSTERING) == [RunState.CANCELLED], within=timedelta(seconds=1))

    (run,) = road.runs(Service.CLUSTERING)
    assert run.outcome == "no moment without a write in flight within 5m"


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
@pytest.mark.parametrize("breaks", ["fake.json", "timeline/99999999.write.requested"])
def test_a_clustering_does_not_wait_for_metadata_that_cannot_be_read(tmp_path: Path, step: Step, breaks: str) -> None:
    """Neither a table that is half-written nor one instant that is, is waited for with a plan pending."""
    road = a_road(tmp_path)
    road.until_executing(step, Service.CLUSTERING)
    (road.lake.folder / breaks).write_text("{")
    road.held_pool.release()

    road.until(lambda: RunState.CANCELLED in road.states(Service.CLUSTERING), within=timedelta(seconds=1))

    assert list(road.lake.folder.glob("timeline/*.clustering.*")) == []


def test_nothing_starts_beside_a_clustering_and_it_beside_nothing(tmp_path: Path) -> None:
    """Neither a clean nor a compaction of its table: both follow when it has ended."""
    road = Road(tmp_path, policies={**CLUSTER, **COMPACT_AND_CLEAN})
    road.held_pool.hold(Service.CLUSTERING, Step.COMMIT)
    for service in COMPACT_AND_CLEAN:
        road.held_pool.hold(service, Step.COMMIT)
    prepare(road.lake)
    road.inbox.mark_dirty(TRIPS)
    seen = set()
    for _ in range(200):
        road.turn()
        under_way = frozenset(run.service for run in road.daemon._book.under_way())
        seen.add(under_way)
        if road.clock.now().second % 7 == 0:
            road.held_pool.release()
    assert all(services == {Service.CLUSTERING} for services in seen if Service.CLUSTERING in services)
    assert frozenset({Service.CLUSTERING}) in seen


def test_a_clustering_that_has_rewritten_nothing_lets_a_compaction_go_first(tmp_path: Path) -> None:
    """It takes its plan back, the compaction is made at once, and the clustering comes again after it."""
    compaction = {Service.COMPACTION: Policy(trigger=NumCommits(at_least=4))}
    road = Road(tmp_path, policies={**CLUSTER, **compaction})
    prepare(road.lake)
    road.until_executing(Step.PLAN, Service.CLUSTERING)
    road.lake.write()
    road.until(lambda: road.states(Service.COMPACTION) == [RunState.QUEUED])
    road.held_pool.release()

    road.until(lambda: road.states(Service.COMPACTION) == [RunState.SUCCEEDED], within=timedelta(seconds=5))

    (run,) = road.runs(Service.CLUSTERING)
    assert run.state is RunState.CANCELLED
    assert run.outcome is not None
    assert run.outcome.endswith("is due and goes first")
    assert nothing_is_pending(road)
    road.until(lambda: len(road.completed(Service.CLUSTERING)) == 1)


class _Noting(HoldingPool):
    """A pool that notes how often each run's service had stepped back before."""

    def submit(self, assignment: Assignment) -> None:
        self.stepped_back = [*getattr(self, "stepped_back", []), assignment.stepped_back]
        super().submit(assignment)


def test_a_run_is_told_how_often_its_service_stepped_back_before(tmp_path: Path) -> None:
    """In a row: a success ends it."""
    road = Road(tmp_path, policies=CLUSTER)
    pool = _Noting(slots=4, clock=road.clock)
    road.stop()
    road.compose(pool)
    prepare(road.lake)
    pool.hold(Service.CLUSTERING, Step.PLAN)
    for times in (1, 2):
        road.until(lambda: len(pool.under_way) == 1)
        write = road.lake.begin_write()
        pool.release()
        pool.hold(Service.CLUSTERING, Step.PLAN)
        road.until(lambda: road.states(Service.CLUSTERING).count(RunState.CANCELLED) == times)  # noqa: B023
        road.lake.commit_write(write)
    pool.release()
    road.until(lambda: len(road.completed(Service.CLUSTERING)) == 1)
    road.write(3)
    road.until(lambda: len(road.completed(Service.CLUSTERING)) == 2)

    assert pool.stepped_back == [0, 1, 2, 0]
