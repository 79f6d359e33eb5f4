"""No run is settled, and no instant freed, while executors on a cluster may still write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.application import ClusterApplication
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Step
from lakewarden.service.model.run import ExecutorNames, RunState
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from tests.support.daemon.daemon_harness import DaemonHarness, HarnessClock
from tests.support.doubles.callers_thread import CallersThread
from tests.support.pool.poison import a_dead_process

APPLICATION = ClusterApplication(
    master="spark://127.0.0.1:7077",
    application="app-20261124040607-0000",
    web_ui=None,
    executors_end_within=45,
)
ASKED = replace(APPLICATION, web_ui="http://127.0.0.1:8080")
NAMES = ExecutorNames(executor=a_dead_process(1), application=APPLICATION.to_text())
END = timedelta(seconds=45)


def executing(folder: Path, *, executor: str | None, application: str | None) -> DaemonHarness:
    """Return a daemon with a compaction that executes, in that JVM and with these executors."""
    harness = DaemonHarness(folder)
    harness.compose()
    harness.pool._executor, harness.pool._application = executor, application
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    return harness


@pytest.mark.parametrize("crashes", [True, False])
def test_a_run_whose_worker_was_killed_is_not_settled_before_its_executors_have_ended(
    tmp_path: Path, crashes: bool
) -> None:
    """Its JVM is gone and reaped, and its executors are elsewhere. Nothing else begins on the table meanwhile."""
    harness = executing(tmp_path, executor=None, application=APPLICATION.to_text())
    (run,) = harness.runs()
    if crashes:
        harness.pool.crash()
    else:
        harness.pool.kill(run.id)
    harness.for_a_while(END - timedelta(seconds=3))
    before = [found.state for found in harness.runs()]
    harness.for_a_while(timedelta(seconds=6))
    settled = harness.store.run(run.id)

    assert before == [RunState.UNKNOWN]
    assert settled is not None
    assert settled.state.ended
    assert "had the 45s in which they end without it" in (settled.outcome or "")


def test_a_restarted_daemon_knows_that_executors_of_its_run_are_elsewhere(tmp_path: Path) -> None:
    """The row of the run says so. The JVM is proved dead at once, and its executors have their time from then."""
    harness = executing(tmp_path, executor=a_dead_process(1), application=APPLICATION.to_text())
    (run,) = harness.runs()
    harness.compose()
    harness.for_a_while(END - timedelta(seconds=3))
    row = harness.store.run(run.id)
    assert row is not None
    assert row.state is RunState.UNKNOWN
    harness.for_a_while(timedelta(seconds=6))
    row = harness.store.run(run.id)
    assert row is not None
    assert row.state.ended


class AskedCluster:
    """A cluster with one worker, which may have an executor, and which ends applications or not."""

    def __init__(self, *, obeys: bool) -> None:
        self.obeys = obeys
        self.executors: list[Mapping[str, Any]] = [{"appid": APPLICATION.application}]
        self.away = False
        self.asked = 0
        self.ended: list[str] = []

    def ask(self, address: str) -> Mapping[str, Any]:
        self.asked += 1
        if self.away:
            raise TemporaryError("the master is away")
        if ":8081" in address:
            return {"id": "w", "executors": self.executors}
        over = [{"id": APPLICATION.application, "state": "KILLED"}] if not self.executors else []
        worker = {"id": "w", "state": "ALIVE", "webuiaddress": "http://127.0.0.1:8081"}
        return {"status": "ALIVE", "workers": [worker], "completedapps": over, "activeapps": []}

    def end(self, application: ClusterApplication) -> None:
        self.ended.append(application.application)
        if self.obeys:
            self.executors = []


def deaths_of(cluster: AskedCluster, clock: HarnessClock) -> ExecutorDeaths:
    """Return what judges deaths by that cluster."""
    return ExecutorDeaths(clock=clock, threads=CallersThread(), ask=cluster.ask, end=cluster.end)


def test_a_cluster_is_asked_to_end_what_its_driver_left_and_believed_when_it_has() -> None:
    """That takes a second or two, where time alone takes the whole deadline."""
    clock, cluster = HarnessClock(), AskedCluster(obeys=True)
    deaths = deaths_of(cluster, clock)
    names = ExecutorNames(executor=None, application=ASKED.to_text())

    first = deaths.proof(names, gone_since=clock.monotonic())
    clock.advance(timedelta(seconds=2))
    second = deaths.proof(names, gone_since=clock.monotonic())
    asked = cluster.asked
    deaths.proof(names, gone_since=clock.monotonic())

    assert (first.proved, second.proved) == (False, True)
    assert cluster.ended == [APPLICATION.application]
    assert cluster.asked == asked  # what has ended has ended


def test_an_executor_that_a_living_worker_lists_is_never_dead_by_time() -> None:
    """A frozen one goes on when it wakes, however long that took."""
    clock, cluster = HarnessClock(), AskedCluster(obeys=False)
    deaths = deaths_of(cluster, clock)
    names, since = ExecutorNames(executor=None, application=ASKED.to_text()), clock.monotonic()
    for _ in range(10):
        clock.advance(END)
        assert not deaths.proof(names, gone_since=since).proved


def test_a_cluster_that_does_not_answer_leaves_the_proof_to_time() -> None:
    """A master that is gone for good blocks no table for good."""
    clock, cluster = HarnessClock(), AskedCluster(obeys=False)
    cluster.away = True
    deaths = deaths_of(cluster, clock)
    names, since = ExecutorNames(executor=None, application=ASKED.to_text()), clock.monotonic()
    clock.advance(END - timedelta(seconds=1))
    early = deaths.proof(names, gone_since=since)
    clock.advance(timedelta(seconds=1))

    assert not early.proved
    assert "the master is away" in early.reason
    assert deaths.proof(names, gone_since=since).proved


def test_no_cluster_is_asked_while_the_driver_may_live() -> None:
    """Above all it is not asked to end the application."""
    clock, cluster = HarnessClock(), AskedCluster(obeys=True)
    deaths = deaths_of(cluster, clock)
    names = ExecutorNames(executor="somewhere else", application=ASKED.to_text())

    assert not deaths.proof(names).proved
    assert not deaths.proof(names, gone_since=clock.monotonic() + 1).proved
    assert cluster.asked == 0
    assert not cluster.ended


def test_an_application_that_cannot_be_read_has_ten_minutes() -> None:
    """A later version wrote the row."""
    clock = HarnessClock()
    deaths = deaths_of(AskedCluster(obeys=True), clock)
    names, since = ExecutorNames(executor=None, application="{}"), clock.monotonic()
    clock.advance(timedelta(minutes=9))
    assert not deaths.proof(names, gone_since=since).proved
    clock.advance(timedelta(minutes=1))
    assert deaths.proof(names, gone_since=since).proved
