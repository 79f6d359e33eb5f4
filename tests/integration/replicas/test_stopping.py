"""SIGTERM of a real daemon in the middle of a run: its JVM ends, then its lease, and the next daemon continues."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from tests.support.daemon.replica_process import ReplicaProcess
    from tests.support.hudi.orders import Orders
    from tests.support.store.postgres import PostgresServer

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}
LIVING = "SELECT count(*) FROM replicas WHERE ended_at IS NULL"


@pytest.mark.parametrize(
    ("drain", "signals"), [("0s", 1), pytest.param("10m", 2, marks=pytest.mark.faults)], ids=["no drain", "twice"]
)
def test_a_daemon_that_is_stopped_leaves_no_jvm_and_no_lease(
    orders: Orders, replica_of: Callable[..., ReplicaProcess], postgres: PostgresServer, drain: str, signals: int
) -> None:
    """This takes seconds, whatever runs. The next daemon completes the interrupted run as the very same instant."""
    database = postgres.make_database()
    daemon = replica_of("one", orders, COMPACTION, database=database, drain=drain)
    daemon.start()
    daemon.until(lambda: any(run["step"] == "execute" for run in daemon.runs("compaction")))
    family = psutil.Process(daemon.process.pid).children(recursive=True)
    jvms = [process for process in family if process.name() == "java"]
    assert jvms != []
    assert postgres.execute(database, LIVING) == [(1,)]

    for _ in range(signals):
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    assert daemon.process.wait(timeout=30) == 0

    assert _living(jvms) == []
    psutil.wait_procs(family, timeout=5)  # readers are killed too, but not waited for: a storage may hold one
    assert _living(family) == []
    assert postgres.execute(database, LIVING) == [(0,)]
    assert postgres.execute(database, "SELECT count(*) FROM shares") == [(0,)]
    unsettled = "SELECT count(*) FROM runs WHERE ended_at IS NULL AND state <> 'QUEUED'"
    assert postgres.execute(database, unsettled) == [(0,)]
    daemon.start()
    daemon.until_succeeded("compaction")
    assert orders.found() == orders.expected
    assert len(orders.timeline("*_*.commit")) == 1
    assert daemon.stop() == 0


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
