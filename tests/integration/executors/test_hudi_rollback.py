"""Hudi's rollback on real Spark: the writes of dead writers are undone, and no others."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _write_in_flight(orders: Orders, *, silent_for: timedelta | None, ago: int) -> str:
    """Leave a write in flight whose heartbeat is so old; None: it has none."""
    instant = time.strftime("%Y%m%d%H%M%S000", time.gmtime(time.time() - ago))
    for state in ("requested", "inflight"):
        (orders.path / ".hoodie" / "timeline" / f"{instant}.deltacommit.{state}").touch()
    if silent_for is not None:
        heartbeat = orders.path / ".hoodie" / ".heartbeat" / instant
        heartbeat.touch()
        beat = time.time() - silent_for.total_seconds()
        os.utime(heartbeat, (beat, beat))
    return instant


@pytest.mark.core
def test_exactly_the_writes_of_dead_writers_are_rolled_back(driver: Driver, orders: Orders) -> None:
    """A write that was silent for longer than the policy says is rolled back, and its heartbeat removed. A write that
    was silent for less, though for longer than Hudi itself waits, stays. So does one without any heartbeat.
    """
    properties = orders.path / ".hoodie" / "hoodie.properties"
    before = (properties.read_bytes(), properties.stat().st_mtime_ns)
    dead = _write_in_flight(orders, silent_for=timedelta(minutes=20), ago=3)
    slow = _write_in_flight(orders, silent_for=timedelta(minutes=10), ago=2)
    unknown = _write_in_flight(orders, silent_for=None, ago=1)

    outcome = driver.carry_out(orders, Service.ROLLBACK)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["writes_rolled_back"] == 1
    assert orders.timeline(f"{dead}*") == []
    assert not (orders.path / ".hoodie" / ".heartbeat" / dead).exists()
    assert orders.timeline(f"{slow}.deltacommit.inflight")
    assert orders.timeline(f"{unknown}.deltacommit.inflight")
    assert len(orders.timeline("*_*.rollback")) == 1
    assert orders.found() == orders.expected
    assert (properties.read_bytes(), properties.stat().st_mtime_ns) == before
    assert isinstance(driver.carry_out(orders, Service.ROLLBACK), NothingToDo)


def test_an_unfinished_rollback_is_finished(driver: Driver, orders: Orders) -> None:
    """The timeline shows that its client died before it undid anything. The rollback is taken up and finished."""
    dead = _write_in_flight(orders, silent_for=timedelta(minutes=20), ago=1)
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    client = HudiClient(orders.spark, str(orders.path), options, {}, indexes=orders.indexes())
    client.plan_rollback(dead)
    client.close()
    [planned] = orders.timeline("*.rollback.requested")

    outcome = driver.carry_out(orders, Service.ROLLBACK, instant=planned.split(".")[0])

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["writes_rolled_back"] == 1
    assert orders.timeline(f"{dead}*") == []
    assert len(orders.timeline("*_*.rollback")) == 1
    assert orders.found() == orders.expected
