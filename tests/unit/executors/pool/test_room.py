"""The plans that one worker has at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from tests.support.doubles.fake import FakeTable
from tests.support.pool import light_worker
from tests.support.waiting import eventually

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
