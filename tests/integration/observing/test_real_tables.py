"""The observed file groups, writers and metadata table of a table that Spark writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hudi import HudiTable

from lakewarden.planners.formats.hudi import THOROUGH
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def seen(orders: Orders) -> TableView:
    location = str(orders.path)
    table = Table(id=TableId("o"), format="hudi", location=location, options=HudiTableOptions(writers="none"))
    return THOROUGH.observe(table, storage_for(location), None, now=datetime.now(UTC)).view


def file_slices(orders: Orders) -> tuple[int, int]:
    """Return the number of log files in the fullest slice and the number of base files, as hudi-rs sees them."""
    slices = HudiTable(str(orders.path)).get_file_slices()
    return max(len(one.log_file_names) for one in slices), sum(bool(one.base_file_name) for one in slices)


@pytest.mark.core
def test_file_groups_and_touches_are_those_of_an_independent_reader(orders: Orders, driver: Driver) -> None:
    """The test compares after inserts and updates, after a compaction, and after an update of one partition."""
    for expected_log_files in (2, 0, 1):
        view = seen(orders)
        compaction, clustering = view.backlogs[Service.COMPACTION], view.backlogs[Service.CLUSTERING]
        assert (compaction.log_files, clustering.small_files) == file_slices(orders)
        assert compaction.log_files == expected_log_files
        touches = view.writers.touches
        assert touches is not None
        last = [i.time for i in view.timeline.instants if i.action == "deltacommit"][-1]
        newest = {partition for partition, touch in touches.items() if touch.instant == last}
        assert newest == ({"p0"} if expected_log_files == 1 else {"p0", "p1", "p2"})
        assert all(touch.updates for touch in touches.values())
        if expected_log_files == 2:
            driver.carry_out(orders, Service.COMPACTION)
        else:
            orders.write(keys=1)
    [metadata] = view.inner
    assert metadata.pinned_by is None
