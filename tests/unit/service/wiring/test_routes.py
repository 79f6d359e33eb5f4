"""Routes in the daemon: the size of what has piled up leads a run to its workers, and they keep it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Route, Table
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness, HoldingPool
from tests.support.doubles.fake import FakeFormat
from tests.support.doubles.fake_pool import FakePool

GIB = 2**30
TO_THE_CLUSTER = (Route(spark="cluster", plan_at_least=10 * GIB),)


class SizedFormat(FakeFormat):
    """The fake format with a backlog of compaction of `size` bytes."""

    size: int | None = 1 * GIB

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return what the table shows."""
        found = super().observe(table, storage, previous, now=now)
        backlogs = {name: replace(one, bytes=self.size) for name, one in found.view.backlogs.items()}
        return replace(found, view=replace(found.view, backlogs=backlogs))


def harness_of(folder: Path, sized: SizedFormat, cluster: FakePool) -> DaemonHarness:
    """Return a daemon with a pool of its own for large plans."""
    return DaemonHarness(folder, formats={"fake": sized}, routes=TO_THE_CLUSTER, more_pools={"cluster": cluster})


def test_a_large_plan_goes_to_the_cluster_and_a_small_one_stays(tmp_path: Path) -> None:
    """What has piled up by the time of the start decides, for each run anew."""
    sized, cluster = SizedFormat(), HoldingPool(slots=2)
    harness = harness_of(tmp_path, sized, cluster)
    harness.write(3)
    small = harness.until_executing(Step.EXECUTE)
    assert (list(harness.pool.progress()), list(cluster.progress())) == ([small.id], [])
    harness.held_pool.release()
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])

    sized.size = 10 * GIB
    cluster.hold(Service.COMPACTION, Step.EXECUTE)
    harness.write(3)
    harness.until(lambda: cluster.under_way != [])
    assert list(harness.pool.progress()) == []
    cluster.release()
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED, RunState.SUCCEEDED])


def test_a_run_stays_with_the_workers_that_have_it(tmp_path: Path) -> None:
    """Its answers and its cancellation reach them, although what has piled up now would lead to others."""
    sized, cluster = SizedFormat(), HoldingPool(slots=2)
    harness = harness_of(tmp_path, sized, cluster)
    harness.write(3)
    write = harness.lake.begin_write()  # the plan waits for it
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: harness.at(Step.PLAN))
    sized.size = 10 * GIB
    harness.lake.commit_write(write)
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
    assert not cluster.progress()


def test_what_stops_a_run_reaches_the_workers_that_have_it(tmp_path: Path) -> None:
    """What an operator says is said where it is."""
    sized, cluster = SizedFormat(), HoldingPool(slots=2)
    sized.size = 10 * GIB
    harness = harness_of(tmp_path, sized, cluster)
    harness.write(3)
    harness.lake.begin_write()
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: harness.at(Step.PLAN))
    sized.size = 1
    harness.lake.write()
    harness.commands.mark_dirty(TRIPS)
    harness.for_a_while(timedelta(seconds=5))
    (run,) = harness.runs()
    assert list(cluster.progress()) == [run.id]
    harness.answered(harness.status.commands.cancel(TRIPS, run.id))
    harness.until(lambda: harness.states()[0] is RunState.CANCELLED)
    assert not cluster.progress()


def test_a_queued_run_that_a_size_leads_waits_for_the_first_observation(tmp_path: Path) -> None:
    """After a restart the queue is known before the tables are. A large plan is given to no small workers meanwhile."""
    sized, cluster = SizedFormat(), HoldingPool(slots=0)
    sized.size = 10 * GIB
    harness = harness_of(tmp_path, sized, cluster)
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.QUEUED])
    harness.for_a_while(timedelta(seconds=5))
    harness.compose()
    cluster._slots = 1
    cluster.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: cluster.under_way != [])
    assert not harness.pool.progress()


def test_a_pool_is_told_how_many_runs_wait_for_it(tmp_path: Path) -> None:
    """So a pool without workers at rest starts one for the first run that is led to it. A daemon that ends needs none
    any more.
    """
    sized, cluster = SizedFormat(), HoldingPool(slots=0)
    sized.size = 10 * GIB
    harness = harness_of(tmp_path, sized, cluster)
    harness.for_a_while(timedelta(seconds=2))
    assert cluster.needed == 0
    harness.write(3)
    harness.until(lambda: cluster.needed == 1)
    assert harness.pool.needed == 0
    harness.daemon.stop()
    harness.until(lambda: cluster.needed == 0)
