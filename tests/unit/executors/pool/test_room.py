"""The places of a worker, and why it is started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lakewarden.executors.contract import WorkerEnd
from lakewarden.executors.pool.listening import WorkerLine
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from tests.support.pool import light_worker
from tests.support.waiting import eventually

# The reasons for which session workers are started again, as a pool reports them.


@pytest.mark.long
def test_a_pool_reports_why_its_workers_ended_and_not_that_it_was_closed(tmp_path: Path) -> None:
    """An operator sees whether JVMs die, or whether the daemon ends them. A daemon that stops restarts nothing."""
    ends: list[WorkerEnd] = []
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        restarted=ends.append,
    )

    def up() -> None:
        eventually(lambda: pool.capacity().slots > 0)

    pool.start(lambda _event: None)
    up()
    os.kill(pool._workers[0].process.pid, signal.SIGKILL)
    eventually(lambda: ends == [WorkerEnd.DIED])
    up()
    pool.evict("the lease is late")
    eventually(lambda: ends == [WorkerEnd.DIED, WorkerEnd.EVICTED])
    up()
    pool.close()

    assert ends == [WorkerEnd.DIED, WorkerEnd.EVICTED]


def test_the_lines_of_a_worker_are_passed_on_with_its_name(tmp_path: Path) -> None:
    """Those of its JVM too, because both write to one file. Lines of an earlier daemon are not repeated."""
    log = tmp_path / "worker-1.log"
    log.write_text("of an earlier daemon\n")
    lines: list[WorkerLine] = []
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        line=lines.append,
    )
    pool.start(lambda _event: None)
    eventually(lambda: pool.capacity().slots > 0)
    with log.open("a") as written:
        written.write("WARN a line of the JVM\n")
    eventually(lambda: ("worker-1", "WARN a line of the JVM") in [(one.worker, one.line.message) for one in lines])
    pool.close()

    assert "of an earlier daemon" not in [one.line.message for one in lines]
