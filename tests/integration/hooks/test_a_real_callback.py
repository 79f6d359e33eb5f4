"""Hudi's own HTTP callback, sent by a real writer's commit, causes an observation and a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from lakewarden.planners.model.decision import Due, NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState
from tests.support.hudi.hudi_daemon import hudi_daemon

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_a_commit_that_makes_a_compaction_due_starts_it_at_once(driver: Driver, orders: Orders) -> None:
    """The next poll is an hour away, and no client asks. The callback of a writer with the printed options causes the
    observation, and the compaction completes.
    """
    with driver.pool_lent() as pool, hudi_daemon(orders.path, lock=orders.lock, pool=pool, compacts_after=4) as daemon:
        first = daemon.decision()
        assert isinstance(first, NotDue)
        assert first.reason.startswith("3 of 4 commits")

        writer = dataclasses.replace(orders, conf=daemon.writer_options())
        writer.write()

        assert daemon.hook() == ("hudi", "accepted")
        assert isinstance(daemon.decision(), Due)
        run = daemon.ending()
    assert (run.service, run.state) == (Service.COMPACTION, RunState.SUCCEEDED)
    assert len(orders.timeline(f"{run.instant}_*.commit")) == 1
    assert orders.found() == writer.expected
