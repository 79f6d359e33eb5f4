"""kill -9 of a replica: another one on the same database takes over its table and finishes its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.daemon.replica_process import ReplicaProcess
    from tests.support.hudi.orders import Orders
    from tests.support.store.postgres import PostgresServer

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}
LEASE = 10.0


def test_the_run_of_a_killed_replica_is_finished_by_the_other_one(
    orders: Orders, replica_of: Callable[..., ReplicaProcess], postgres: PostgresServer
) -> None:
    """Its table moves after its lease. Its plan is completed once, under a higher epoch, and every row is right."""
    database = postgres.make_database()
    one = replica_of("one", orders, COMPACTION, database=database)
    one.start()
    one.until(one.owns)
    two = replica_of("two", orders, COMPACTION, database=database)
    two.start()
    two.until(lambda: len((two.get("/v1/replicas") or {"items": []})["items"]) == 2)
    assert not two.owns()
    one.until(lambda: any(run["step"] == "execute" for run in two.runs("compaction")))

    one.kill()
    two.until(two.owns)
    succeeded = two.until_succeeded("compaction")

    assert orders.found() == orders.expected
    assert len(orders.timeline("*_*.commit")) == 1
    epochs = [run["epoch"] for run in reversed(two.runs("compaction")) if run["epoch"]]
    assert epochs == sorted(set(epochs))
    assert succeeded["instant"] in {run["instant"] for run in two.runs("compaction") if run["state"] != "SUCCEEDED"}
    assert two.stop() == 0
    assert postgres.execute(database, "SELECT count(*) FROM shares") == [(0,)]
