"""A replica on a node that is lost: its processes live on, frozen, and its executors on a cluster do as well. Another
replica takes over, and nothing of the first one writes any more when it begins.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.daemon.replica_process import ReplicaProcess
from tests.support.doubles.standalone_cluster import StandaloneCluster
from tests.support.store.postgres import PostgresServer, running_postgres
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """Run a database for both replicas."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Run a master and two workers."""
    running = StandaloneCluster(tmp_path / "cluster")
    yield running
    running.end()


class ClusterReplica(ReplicaProcess):
    """A replica with session workers that drive executors of a cluster. Its node can be lost."""

    def __init__(
        self, folder: Path, orders: Orders, services: Mapping[str, Any], *, database: str, spark: Mapping[str, Any]
    ) -> None:
        super().__init__(folder, orders, services, database=database)
        file = folder / "lakewarden.yaml"
        settings = json.loads(file.read_text())
        settings["spark"]["default"] |= spark
        file.write_text(json.dumps(settings))

    def family(self) -> list[psutil.Process]:
        """Return all processes of its node."""
        daemon = psutil.Process(self.process.pid)
        return [daemon, *daemon.children(recursive=True)]


def begun_by(replica: DaemonProcess, executors: list[psutil.Process]) -> list[int]:
    """Return the executors that still run, once another run than the first one has a permit to change the table."""
    newest = replica.runs("compaction")
    if len({run["id"] for run in newest if run["step"]}) < 2:
        return [-1]
    return [one.pid for one in executors if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def begins_to_write(orders: Orders) -> bool:
    """Return whether an executor has begun to write a file of a plan: it leaves a marker before."""
    return next((orders.path / ".hoodie" / ".temp").glob("**/*.marker*"), None) is not None


def test_frozen_executors_of_a_killed_driver_are_gone_before_another_run_begins(
    orders: Orders, daemon_of: Callable[..., DaemonProcess], cluster: StandaloneCluster
) -> None:
    """They are stopped in the middle of a file, and would go on when they wake. The plan is completed once, every row
    is right, and after the daemon has ended there is no executor.
    """
    daemon = daemon_of(orders, COMPACTION, **cluster.profile())
    daemon.start()
    daemon.until(lambda: begins_to_write(orders))
    executors = cluster.executors()
    for executor in executors:
        executor.send_signal(signal.SIGSTOP)
    daemon.kill_worker_jvm()
    assert executors
    found = [[-1]]

    def another_run_has_begun() -> bool:
        found.append(begun_by(daemon, executors))
        return found[-1] != [-1]

    daemon.until(another_run_has_begun)
    daemon.until_succeeded("compaction")

    assert found[-1] == []
    assert "has an executor of it" in daemon.log.read_text()
    assert orders.found() == orders.expected
    assert len(orders.timeline("*_*.commit")) == 1
    assert daemon.stop() == 0
    eventually(lambda: not cluster.executors())


@pytest.mark.faults
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "by time"])
def test_executors_of_a_lost_node_have_ended_before_another_replica_begins(
    orders: Orders, postgres: PostgresServer, cluster: StandaloneCluster, tmp_path: Path, asked: bool
) -> None:
    """They are stopped in the middle of a file, so they write as late as they can. The master is asked to end them, or
    their own deadline is waited for. Then the plan is completed once, and every row is right.
    """
    database, spark = postgres.make_database(), dict(cluster.profile(**{"spark.executor.heartbeatInterval": "1s"}))
    if not asked:
        del spark["master_ui"]
    one = ClusterReplica(tmp_path / "one", orders, COMPACTION, database=database, spark=spark)
    two = ClusterReplica(tmp_path / "two", orders, COMPACTION, database=database, spark=spark)
    lost: list[psutil.Process] = []
    try:
        one.start()
        one.until(one.owns)
        one.until(lambda: begins_to_write(orders))
        executors = cluster.executors()
        for process in (*(executors if asked else ()), *one.family()):
            lost.append(process)
            process.send_signal(signal.SIGSTOP)
        lost_at = time.monotonic()
        assert executors
        two.start()
        two.until(two.owns)
        living: list[int] = [-1]

        def another_run_has_begun() -> bool:
            nonlocal living
            living = begun_by(two, executors)
            return living != [-1]

        two.until(another_run_has_begun)
        waited = time.monotonic() - lost_at
        assert living == []
        two.until_succeeded("compaction")
        for process in lost:  # the node is there again
            if process.is_running():
                process.send_signal(signal.SIGCONT)
        time.sleep(3)  # it would write now, if it could

        assert orders.found() == orders.expected
        assert len(orders.timeline("*_*.commit")) == 1
        print(f"another run began {waited:.1f} s after the node was lost")
        assert two.stop() == 0
    finally:
        for process in lost:
            if process.is_running():
                process.send_signal(signal.SIGCONT)
        for replica in (one, two):
            replica.end()
