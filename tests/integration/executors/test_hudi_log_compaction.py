"""Hudi's log compaction on real Spark: what it merges, and that no plan is left behind."""

from __future__ import annotations

import dataclasses
import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    NothingToDo,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

TWO_BLOCKS: dict[str, Any] = {"log_blocks_threshold": 2}


@pytest.mark.core
def test_log_blocks_become_one_and_base_files_stay(driver: Driver, orders: Orders) -> None:
    """Execution writes invisible log files, and the commit shows them. No base file and no property changes."""
    properties = orders.path / ".hoodie" / "hoodie.properties"
    before = (properties.read_bytes(), properties.stat().st_mtime_ns)
    base_files = {name for name in orders.data_files() if name.endswith(".parquet")}
    run = driver.submit(orders, Service.LOG_COMPACTION, **TWO_BLOCKS)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.file_groups == 3
    assert orders.timeline(f"{plan.instant}_*.deltacommit") == []
    assert orders.found() == orders.expected

    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert len(orders.timeline(f"{plan.instant}_*.deltacommit")) == 1
    assert {name for name in orders.data_files() if name.endswith(".parquet")} == base_files
    assert orders.found() == orders.expected
    assert (properties.read_bytes(), properties.stat().st_mtime_ns) == before
    assert isinstance(driver.carry_out(orders, Service.LOG_COMPACTION, **TWO_BLOCKS), NothingToDo)


def test_the_offsets_of_a_kafka_sink_stay_in_the_newest_delta_commit(driver: Driver, orders: Orders) -> None:
    """The sink looks for them there alone, and a log compaction is a delta commit without them."""
    offsets = {"hoodie.datasource.write.commitmeta.key.prefix": "kafka.commit", "kafka.commit.offsets": "0=9"}
    dataclasses.replace(orders, conf=offsets).write()

    outcome = driver.carry_out(orders, Service.LOG_COMPACTION, **TWO_BLOCKS)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "Remove services.log_compaction" in outcome.reason
    assert orders.plans_of(Service.LOG_COMPACTION) == set()


def test_a_refused_log_compaction_is_taken_back_with_what_it_wrote(driver: Driver, orders: Orders) -> None:
    """Hudi would never execute its plan again, and would not compact its file groups."""
    files = orders.data_files()
    run = driver.submit(orders, Service.LOG_COMPACTION, **TWO_BLOCKS)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="a writer is busy"))

    assert driver.next(run, Ended).outcome == Yielded(reason="a writer is busy")
    assert orders.timeline("*.logcompaction.*") == []
    assert orders.found() == orders.expected
    assert {name for name in orders.data_files() if name.endswith(".parquet")} <= files
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.found() == orders.expected


def test_what_a_killed_log_compaction_left_is_taken_back_by_the_next(driver: Driver, orders: Orders) -> None:
    """Kill -9 between execute and commit: the next run clears up and steps back, and the one after it compacts."""
    run = driver.submit(orders, Service.LOG_COMPACTION, **TWO_BLOCKS)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    worker = psutil.Process(driver.pool._owner[run].process.pid)
    for jvm in worker.children():
        jvm.send_signal(signal.SIGKILL)
    driver.next(run, Lost)
    driver.until_ready()

    assert isinstance(driver.carry_out(orders, Service.LOG_COMPACTION, instant=plan.instant, **TWO_BLOCKS), Yielded)
    assert orders.timeline("*.logcompaction.*") == []
    assert isinstance(driver.carry_out(orders, Service.LOG_COMPACTION, **TWO_BLOCKS), Succeeded)
    assert orders.found() == orders.expected


def test_a_log_compaction_begun_by_another_client_is_left_alone(driver: Driver, orders: Orders) -> None:
    """No heartbeat shows whether its executor is alive. An operator has to act."""
    timeline = orders.path / ".hoodie" / "timeline"
    driver.carry_out(orders, Service.COMPACTION)
    [compaction] = timeline.glob("*.compaction.requested")
    # plans of both kinds are records of one type
    foreign = timeline / "99999999999999998.logcompaction.requested"
    foreign.write_bytes(compaction.read_bytes().replace(b"lakewarden.run", b"somebody.else_"))
    foreign.with_suffix(".inflight").touch()

    outcome = driver.carry_out(orders, Service.LOG_COMPACTION, instant="99999999999999998", **TWO_BLOCKS)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert foreign.exists()
    assert orders.found() == orders.expected
