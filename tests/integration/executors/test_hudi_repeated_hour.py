"""The hour that daylight saving gives back, on real Hudi: nothing is stamped while wall clocks show times twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Assignment, Granted, Outcome, Plan, Succeeded, Yielded
from lakewarden.executors.programs.hudi.compaction import Compaction
from lakewarden.executors.worker.runs import carry_out
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage.local import LocalStorage

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

PUT_BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""The moment when Berlin's clocks went from three back to two."""


def _compacted(orders: Orders, *, zones: dict[Step, str], instant: str | None = None) -> Outcome:
    """Run a compaction half an hour before the clocks are put back, in a JVM whose zone changes before these steps."""
    zone = orders.spark._jvm.java.util.TimeZone

    def granted(step: Step, _: Plan | None) -> Granted:
        zone.setDefault(zone.getTimeZone(zones.get(step, "UTC")))
        return Granted()

    assignment = Assignment(
        run=RunId("night"), epoch=1, table=TableId("orders"), service=Service.COMPACTION, instant=instant,
        **orders.assigned,
    )  # fmt: skip
    clock = ManualClock(PUT_BACK - timedelta(minutes=30))
    try:
        return carry_out(Compaction(clock=clock), orders.spark, assignment, LocalStorage(), granted)
    finally:
        zone.setDefault(zone.getTimeZone("UTC"))


def test_nothing_is_stamped_while_clocks_show_times_twice(orders: Orders) -> None:
    """No plan is made, and what was executed meanwhile is not committed. It stays pending until the hour is over."""
    outcome = _compacted(orders, zones={Step.PLAN: "Europe/Berlin"})
    assert isinstance(outcome, Yielded)
    assert "03:00 of Europe/Berlin" in outcome.reason
    assert outcome.delay == timedelta(hours=1, minutes=30)
    assert orders.timeline("*.compaction.*") == []

    assert isinstance(_compacted(orders, zones={Step.COMMIT: "Europe/Berlin"}), Yielded)
    [plan] = orders.timeline("*.compaction.requested")
    assert orders.timeline("*_*.commit") == []
    assert orders.found() == orders.expected

    assert isinstance(_compacted(orders, zones={}, instant=plan.split(".")[0]), Succeeded)
    assert orders.found() == orders.expected
