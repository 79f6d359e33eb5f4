"""The callbacks of other releases' writers work as those of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from lakewarden.planners.model.decision import Due, NotDue
from lakewarden.service.model.run import RunState
from tests.integration.versions.conftest import MERGE_ON_READ, ReleaseOrders
from tests.support.hudi.hudi_daemon import hudi_daemon

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.versions]


@pytest.mark.parametrize("release", ["0.15.0", "1.0.2", "1.1.1"])
def test_a_writer_that_sets_what_it_is_told_to_brings_the_look(
    orders_of: Callable[[str, str], ReleaseOrders], driver: Driver, release: str
) -> None:
    """One list of options is for the writers of every release. The commit is made, its callback arrives, and it is
    compacted.
    """
    orders = orders_of(release, MERGE_ON_READ)
    orders.write()
    orders.write()
    with driver.pool_lent() as pool, hudi_daemon(orders.path, lock=orders.lock, pool=pool, compacts_after=3) as daemon:
        assert isinstance(daemon.decision(), NotDue)

        orders.writing(**daemon.writer_options()).write()

        assert daemon.hook() == ("hudi", "accepted")
        assert isinstance(daemon.decision(), Due)
        assert daemon.ending().state is RunState.SUCCEEDED
    assert orders.read_by_their_release() == orders.found() == orders.expected
