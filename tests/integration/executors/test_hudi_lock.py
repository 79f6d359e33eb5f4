"""A lock that its holder never releases, on real Spark and ZooKeeper."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, open_table
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage import LocalStorage

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

SHORT_WAITS = {"hoodie.write.lock.wait_time_ms": "200", "hoodie.write.lock.client.num_retries": "1"}


@pytest.mark.core
def test_a_lock_that_is_never_released_ends_the_run_and_is_named(orders: Orders) -> None:
    """After our client's wait for it the run ends as temporary. Nothing has changed on the timeline, and an operator
    reads which lock it was. Once the lock is released, the same run succeeds.
    """
    assignment = Assignment(
        run=RunId("run-1"),
        epoch=1,
        table=TableId("sales.orders"),
        format="hudi",
        location=str(orders.path),
        service=Service.CLEAN,
        table_options={"lock": dict(orders.lock)},
    )
    before = orders.timeline("*")

    def opened() -> AbstractContextManager[OpenTable]:
        return open_table(orders.spark, assignment, LocalStorage(), service=SHORT_WAITS, clock=SystemClock())

    with opened() as holder:
        with (
            holder.client.locked(),
            pytest.raises(TemporaryError, match="not released in time") as raised,
            opened() as other,
            translated(Step.PLAN),
        ):
            other.client.withdraw("20260101000000000")
        assert orders.lock["lock_key"] in str(raised.value)
        assert orders.timeline("*") == before
        assert not holder.client.withdraw("20260101000000000")
