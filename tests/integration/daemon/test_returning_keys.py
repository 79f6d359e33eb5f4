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
    """The run leaves out its file group, and says so. The next one takes the key in."""
    table = Deleting.of(orders)
    table.delete("o0", **PLANS)
    assert table.timeline("*.compaction.requested") != []
    table.write(keys=1)

    daemon = daemon_of(table, ON_DEMAND)
    daemon.start()
    [ended] = daemon.until(lambda: [run for run in daemon.runs("compaction") if run["state"] == "SUCCEEDED"])

    assert ended["figures"]["file_groups_left_out"] == 1
    assert table.read_by_spark() == table.expected
    assert daemon.post("/v1/tables/sales.orders/services/compaction/runs").is_success
    daemon.until(lambda: [run for run in daemon.runs("compaction") if run["figures"].get("file_groups") == 1])
    table.write(keys=1)
    table.check_rows()
