"""Clustering never waits with a plan, and never beside anything: its plan makes writers fail."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import (
    COMPACT_AND_CLEAN,
    TRIPS,
    DaemonHarness,
    HarnessClock,
    HoldingPool,
    prepare,
)
from tests.support.store.memory_store import MemoryStore

CLUSTER = {Service.CLUSTERING: Policy(trigger=NumCommits(at_least=3))}


def make_harness(folder: Path) -> DaemonHarness:
    """Make a daemon whose table has something to cluster, and is due for it."""
    harness = DaemonHarness(folder, policies=CLUSTER)
    prepare(harness.lake)
    return harness


def nothing_is_pending(harness: DaemonHarness) -> bool:
    """Whether no plan of a clustering stands in a writer's way."""
    return harness.view().timeline.pending(Service.CLUSTERING) == ()


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_write_that_begins_after_the_plan_ends_the_clustering_at_once(tmp_path: Path, step: Step) -> None:
    """Its plan is withdrawn in the same turn: it does not stand at a question."""
    harness = make_harness(tmp_path)
    harness.until_executing(step, Service.CLUSTERING)
    harness.lake.begin_write()
    harness.held_pool.release()
    assert not nothing_is_pending(harness)

    harness.until(lambda: harness.states(Service.CLUSTERING) == [RunState.YIELDED], within=timedelta(seconds=1))

    assert nothing_is_pending(harness)


def test_a_clustering_is_not_planned_beside_a_writer_that_never_pauses(tmp_path: Path) -> None:
    """After its timeout it steps back, where a compaction would go on beside the writer."""
    harness = make_harness(tmp_path)
    write = harness.lake.begin_write()
    harness.until(lambda: harness.at(Step.PLAN, Service.CLUSTERING))
    harness.clock.advance(harness.limits.max_wait_for_writers)
    harness.lake.beat(write)

    harness.until(lambda: harness.states(Service.CLUSTERING) == [RunState.YIELDED], within=timedelta(seconds=1))

    (run,) = harness.runs(Service.CLUSTERING)
    assert run.outcome == "no moment without a write in flight within 5m"


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
@pytest.mark.parametrize("breaks", ["fake.json", "timeline/99999999.write.requested"])
def test_a_clustering_does_not_wait_for_metadata_that_cannot_be_read(tmp_path: Path, step: Step, breaks: str) -> None:
    """Neither a table that is half-written nor one instant that is, is waited for with a plan pending."""
    harness = make_harness(tmp_path)
    harness.until_executing(step, Service.CLUSTERING)
    (harness.lake.folder / breaks).write_text("{")
    harness.held_pool.release()

    harness.until(lambda: RunState.YIELDED in harness.states(Service.CLUSTERING), within=timedelta(seconds=1))

    assert list(harness.lake.folder.glob("timeline/*.clustering.*")) == []


def test_nothing_starts_beside_a_clustering_and_it_beside_nothing(tmp_path: Path) -> None:
    """Neither a clean nor a compaction of its table: both follow when it has ended."""
    harness = DaemonHarness(tmp_path, policies={**CLUSTER, **COMPACT_AND_CLEAN})
    harness.held_pool.hold(Service.CLUSTERING, Step.COMMIT)
    for service in COMPACT_AND_CLEAN:
        harness.held_pool.hold(service, Step.COMMIT)
    prepare(harness.lake)
    harness.commands.mark_dirty(TRIPS)
    seen = set()
    for _ in range(200):
        harness.turn()
        under_way = frozenset(run.service for run in harness.daemon._active_runs.under_way())
        seen.add(under_way)
        if harness.clock.now().second % 7 == 0:
            harness.held_pool.release()
    assert all(services == {Service.CLUSTERING} for services in seen if Service.CLUSTERING in services)
    assert frozenset({Service.CLUSTERING}) in seen


@pytest.mark.parametrize("yielded", [0, 7])
def test_a_clustering_that_has_rewritten_nothing_lets_a_compaction_go_first(tmp_path: Path, yielded: int) -> None:
    """It takes its plan back, the compaction is made at once, and the clustering comes again after it. That the
    compaction gave way to writers before, however often, counts for nothing: it waited 11 minutes in the queue (run).
    """
    compaction = {Service.COMPACTION: Policy(trigger=NumCommits(at_least=4))}
    clock = HarnessClock()
    store = MemoryStore(clock=clock)
    store.keep_row(ServiceStateRow(table=TRIPS, service=Service.COMPACTION, tries=yielded))
    harness = DaemonHarness(tmp_path, policies={**CLUSTER, **compaction}, clock=clock, store=store)
    prepare(harness.lake)
    harness.until_executing(Step.PLAN, Service.CLUSTERING)
    harness.lake.write()
    harness.until(lambda: harness.states(Service.COMPACTION) == [RunState.QUEUED])
    harness.held_pool.release()

    harness.until(lambda: harness.states(Service.COMPACTION) == [RunState.SUCCEEDED], within=timedelta(seconds=5))

    (run,) = harness.runs(Service.CLUSTERING)
    assert run.state is RunState.YIELDED
    assert run.outcome is not None
    assert run.outcome.endswith("is due and goes first")
    assert nothing_is_pending(harness)
    harness.until_executing(Step.PLAN, Service.CLUSTERING)
    harness.write(4)
    harness.until(lambda: RunState.QUEUED in harness.states(Service.COMPACTION))
    harness.held_pool.release()
    harness.until(lambda: harness.states(Service.CLUSTERING)[-1].ended)
    assert harness.states(Service.CLUSTERING) == [RunState.YIELDED, RunState.SUCCEEDED], "it gives way once"


class _Noting(HoldingPool):
    """A pool that notes how often each run's service had stepped back before."""

    def submit(self, assignment: Assignment) -> None:
        self.retries = [*getattr(self, "retries", []), assignment.retries]
        super().submit(assignment)


def test_a_run_is_told_how_often_its_service_stepped_back_before(tmp_path: Path) -> None:
    """In a row: a success ends it."""
    harness = DaemonHarness(tmp_path, policies=CLUSTER)
    pool = _Noting(slots=4, clock=harness.clock)
    harness.stop()
    harness.compose(pool)
    prepare(harness.lake)
    pool.hold(Service.CLUSTERING, Step.PLAN)
    for times in (1, 2):
        harness.until(lambda: len(pool.under_way) == 1)
        write = harness.lake.begin_write()
        pool.release()
        pool.hold(Service.CLUSTERING, Step.PLAN)
        harness.until(lambda: harness.states(Service.CLUSTERING).count(RunState.YIELDED) == times)  # noqa: B023
        harness.lake.commit_write(write)
    pool.release()
    harness.until(lambda: len(harness.completed(Service.CLUSTERING)) == 1)
    harness.write(3)
    harness.until(lambda: len(harness.completed(Service.CLUSTERING)) == 2)

    assert pool.retries == [0, 1, 2, 0]
