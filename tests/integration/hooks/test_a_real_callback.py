"""Hudi's own HTTP callback, sent by a real writer's commit, drives the road."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakewarden.planners.formats.hudi.options import HudiTableOptions
from lakewarden.planners.formats.hudi.service_options import CompactionOptions
from lakewarden.planners.model.decision import Due, NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.store.port import RunState
from tests.support.hudi_daemon import HudiDaemon, hudi_daemon

if TYPE_CHECKING:
    from tests.integration.conftest import Driver, Orders

pytestmark = pytest.mark.spark


@pytest.fixture
def daemon(driver: Driver, orders: Orders) -> Iterator[HudiDaemon]:
    """Serve a table whose compaction is due with its fourth commit, and which is looked at once an hour."""
    table = Table(
        id=TableId("sales.orders"),
        format="hudi",
        location=str(orders.path),
        mode=Mode.ACT,
        poll=timedelta(hours=1),
        options=HudiTableOptions.model_validate({"lock": dict(orders.lock)}),
        policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=4), options=CompactionOptions())},
    )
    with driver.pool_lent() as pool, hudi_daemon(table, pool) as daemon:
        yield daemon


def test_a_commit_that_makes_a_compaction_due_starts_it_at_once(daemon: HudiDaemon, orders: Orders) -> None:
    """Nobody asks and no poll comes: the writer's callback alone brings the look, and the compaction completes."""
    first = daemon.decision()
    assert isinstance(first, NotDue)
    assert first.reason.startswith("3 of 4 commits")

    writer = dataclasses.replace(
        orders,
        conf={
            "hoodie.write.commit.callback.on": "true",
            "hoodie.write.commit.callback.http.url": daemon.hook_url,
            "hoodie.write.commit.callback.http.timeout.seconds": "2",
        },
    )
    writer.write()

    assert daemon.hook() == ("hudi", "accepted")
    assert isinstance(daemon.decision(), Due)
    run = daemon.ending()
    assert (run.service, run.state) == (Service.COMPACTION, RunState.SUCCEEDED)
    assert len(orders.timeline(f"{run.instant}_*.commit")) == 1
    assert orders.found() == writer.expected
