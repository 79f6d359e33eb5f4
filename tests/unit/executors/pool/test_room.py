"""The places of a worker, and why it is started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, WorkerEnd
from lakewarden.executors.pool.listening import WorkerLine
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from tests.support.doubles.fake import FakeTable
from tests.support.pool import light_worker
from tests.support.waiting import eventually

# The plans that one worker has at a time.


GIB = 2**30


def test_the_plans_in_one_worker_have_a_limit_together(tmp_path: Path) -> None:
    """A larger one gets a worker to itself, and a run of unknown size needs no room."""
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms", workers=2, slots=3, plans_at_once="10GiB"),
        directory=tmp_path / "pool",
        command=light_worker.COMMAND,
    )

    def begin(run: str, size: int | None) -> None:
        table = FakeTable.create(tmp_path / run)
        table.write()
        pool.submit(
            Assignment(
                run=RunId(run),
                epoch=1,
                table=TableId(run),
                format="fake",
                location=str(table.folder),
                service=Service.COMPACTION,
                plan_bytes=size,
            )
        )

    pool.start(lambda _event: None)
    try:
        eventually(lambda: pool.capacity().slots == 6)
        assert pool.capacity().largest is None
        begin("huge", 50 * GIB)
        assert pool.capacity().largest is None  # the other worker is idle
        begin("half", 6 * GIB)
        assert pool.capacity().largest == 4 * GIB
        assert pool._owner[RunId("huge")] is not pool._owner[RunId("half")]
        with pytest.raises(TemporaryError, match="no free slot"):
            begin("another half", 6 * GIB)
        begin("quarter", 4 * GIB)
        assert pool._owner[RunId("quarter")] is pool._owner[RunId("half")]
        begin("of unknown size", None)
        assert pool.capacity().largest == 0
    finally:
        pool.close()


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
