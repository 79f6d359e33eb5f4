"""A daemon that reads by processes, as a user's does, over a Hudi table and what ZooKeeper says of its lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.hudi.options.service_options import CompactionOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.zookeeper import Ensemble
from lakewarden.planners.lock_proof import ProofState
from lakewarden.planners.model.clock import ManualClock, SystemClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.events import Listener
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.state.readers.processes import ProcessReaders
from lakewarden.service.wiring.daemon import compose
from tests.support.doubles.fake_pool import FakePool
from tests.support.hudi.hudi_table import HudiTable
from tests.support.hudi.zookeeper_node import ZookeeperNode, zookeeper_node
from tests.support.store.memory_store import MemoryStore

ORDERS = TableId("orders")


@pytest.fixture
def node() -> Iterator[ZookeeperNode]:
    """Serve the lock's node."""
    with zookeeper_node() as node:
        yield node


def test_an_ensemble_is_asked_on_a_connection_that_is_kept_and_made_anew_where_it_broke(node: ZookeeperNode) -> None:
    """A server ends a session that is idle for long."""
    ensemble = Ensemble(f"127.0.0.1:1,{node.address}")
    node.made, node.children = 7, 2
    found = ensemble.node("/hudi/orders")
    assert found is not None
    assert (found.made, found.children) == (7, 2)

    node.hang_up()
    node.there = False
    assert ensemble.node("/hudi/orders") is None


def test_what_the_lock_shows_comes_from_the_process_that_reads_the_table(tmp_path: Path, node: ZookeeperNode) -> None:
    """A writer under the lock is proved, and a commit without it is found, whoever reads."""
    clock = SystemClock()
    lake = HudiTable(tmp_path / "orders", version=9, clock=ManualClock(clock.now()), zone=UTC)
    lock = {"provider": "zookeeper", "url": node.address, "base_path": "/hudi", "lock_key": "orders"}
    table = Table(
        id=ORDERS,
        format="hudi",
        location=str(lake.folder),
        mode=Mode.ACT,
        poll=timedelta(milliseconds=200),
        options=HudiTableOptions.model_validate({"lock": lock, "timeline_timezone": "UTC"}),
        policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=99), options=CompactionOptions())},
    )
    readers = ProcessReaders(settings=ReadingSettings(), stores=(), clock=clock)
    composed = compose(
        tables=[table],
        resources=Resources(
            pools={table.spark: FakePool(slots=1, clock=clock)},
            store=MemoryStore(clock=clock),
            clock=clock,
            listener=Listener(),
            readers=readers,
        ),
        drain=timedelta(0),
    )
    composed.daemon.start()

    def evidence() -> Any:
        return composed.status._statuses._proofs.evidence(ORDERS)

    def until(what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline, evidence()
            time.sleep(min(0.05, composed.daemon.turn()))

    try:
        until(lambda: evidence() is not None)
        for number in range(1, 5):
            node.taken()
            lake.commit_write(lake.begin_write())
            until(lambda number=number: len(evidence().since.completed) == number)  # type: ignore[misc]
        assert evidence().verdict is ProofState.PROVED

        lake.commit_write(lake.begin_write())
        until(lambda: evidence().verdict is ProofState.DISPROVED)
    finally:
        composed.daemon.stop()
        readers.close()
