"""Tables of two formats in one warm session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Granted, Started, Succeeded
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_one_jvm_serves_tables_of_both_formats_at_a_time(driver: Driver, orders: Orders, trips: Trips) -> None:
    """While a rewrite of one is written and not committed, the other's begins and ends, in the same JVM."""
    iceberg = driver.submit(trips, Service.COMPACTION)
    driver.advance(iceberg, to=Step.COMMIT)
    hudi = driver.submit(orders, Service.COMPACTION)
    assert isinstance(driver.finish(hudi), Succeeded)
    driver.pool.answer(iceberg, Step.COMMIT, Granted())
    assert isinstance(driver.finish(iceberg), Succeeded)

    assert driver.next(iceberg, Started).executor == driver.next(hudi, Started).executor
    assert trips.found() == trips.expected
    assert orders.found() == orders.expected
