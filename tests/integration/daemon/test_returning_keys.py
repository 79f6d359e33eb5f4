"""A writer's plan of a compaction, and a deleted key that the writer writes again before a daemon executes the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.executors.deleting_orders import Deleting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

PLANS = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
ON_DEMAND = {"compaction": {"trigger": {"num_commits": 1000}, "schedule": "both", "grace": "1s"}}


def test_a_key_that_returns_beside_a_writers_plan_is_there_once(
    orders: Orders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """The plan is withdrawn, the reason names the key, and a run that is asked for takes the key in."""
    table = Deleting.of(orders)
    table.delete("o0", **PLANS)
    assert table.timeline("*.compaction.requested") != []
    table.write(keys=1)

    daemon = daemon_of(table, ON_DEMAND)
    daemon.start()
    ended = daemon.until(lambda: [run for run in daemon.runs("compaction") if run["state"] == "CANCELLED"])

    assert "key 'o0' was written again since its plan" in str(ended)
    assert table.timeline("*.compaction.*") == []
    daemon.until(lambda: daemon.post("/v1/tables/sales.orders/services/compaction/runs").is_success)  # it backs off
    daemon.until_succeeded("compaction")
    table.write(keys=1)
    table.check_rows()
