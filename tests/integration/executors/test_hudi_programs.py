"""Hudi's compaction on real Spark, each step by its permit, beside a real lock."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import psutil
import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, Lost, Refused, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _heartbeats(orders: Orders) -> list[str]:
    return sorted(p.name for p in (orders.path / ".hoodie" / ".heartbeat").glob("2*"))


def _beside(orders: Orders, pattern: str) -> Path:
    [found] = (orders.path / ".hoodie" / "timeline").glob(pattern)
    return found


@pytest.mark.core
def test_a_compaction_is_signed_sized_executed_and_only_then_committed(driver: Driver, orders: Orders) -> None:
    """The plan names our run and its size, execution writes files that are not visible, and the commit shows them."""
    properties = (orders.path / ".hoodie" / "hoodie.properties").read_bytes()
    before = orders.data_files()
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.COMMIT)

    assert plan is not None
    assert plan.file_groups == 3
    assert plan.bytes is not None
    assert plan.bytes > 0
    record, _ = _avro(_beside(orders, "*.compaction.requested"))
    assert record["extraMetadata"]["lakewarden.run"] == run
    written = {name for name in orders.data_files() if f"_{plan.instant}.parquet" in name}
    assert len(written) == 3
    assert orders.timeline("*.commit") == []
    assert orders.found() == orders.expected

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["file_groups"] == outcome.figures["files_added"] == 3
    assert outcome.figures["files_rewritten"] == len(before)
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1
    assert {name for name in orders.data_files() if f"_{plan.instant}.parquet" in name} == written  # written once
    assert orders.found() == orders.expected
    assert _heartbeats(orders) == []
    assert (orders.path / ".hoodie" / "hoodie.properties").read_bytes() == properties


def test_a_refused_commit_leaves_the_plan_to_the_next_run(driver: Driver, orders: Orders) -> None:
    """Executed files are not committed, no heartbeat blocks the instant, and the next run completes it at once."""
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    driver.pool.answer(run, Step.COMMIT, Refused(reason="a writer is busy"))
    assert driver.next(run, Ended).outcome == Yielded(reason="a writer is busy")
    assert orders.timeline("*.commit") == []
    assert _heartbeats(orders) == []

    assert isinstance(driver.carry_out(orders, Service.COMPACTION, instant=plan.instant), Succeeded)
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1
    assert orders.found() == orders.expected


def test_below_table_version_8_a_refused_plan_is_withdrawn(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """There a pending compaction fails writers, so a plan that may not be executed now is withdrawn. The table keeps
    its version and its layout through a whole compaction.
    """
    conf = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
    old = dataclasses.replace(orders, path=tmp_path / "old", expected={}, conf=conf)
    old.write()
    old.write(keys=6)
    home = old.path / ".hoodie"

    driver.leave_planned(old, Service.COMPACTION)
    assert list(home.glob("*.compaction.requested")) == []

    assert isinstance(driver.carry_out(old, Service.COMPACTION), Succeeded)
    assert len(list(home.glob("*.commit"))) == 1
    assert "hoodie.table.version=6" in (home / "hoodie.properties").read_text().splitlines()
    assert old.found() == old.expected


def test_a_second_executor_is_turned_away_and_disturbs_nothing(driver: Driver, orders: Orders) -> None:
    """While one run executes an instant another gets a temporary failure, and the first one still commits."""
    first = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(first, to=Step.COMMIT)
    assert plan is not None

    outcome = driver.carry_out(orders, Service.COMPACTION, instant=plan.instant)

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == (FailureKind.TEMPORARY, Step.EXECUTE)
    assert _heartbeats(orders) == [plan.instant]
    driver.pool.answer(first, Step.COMMIT, Granted())
    assert isinstance(driver.next(first, Ended).outcome, Succeeded)
    assert orders.found() == orders.expected


def test_a_compaction_with_nothing_to_do_plans_nothing(driver: Driver, orders: Orders) -> None:
    """Right after a compaction there is no other."""
    driver.carry_out(orders, Service.COMPACTION)
    plans = orders.timeline("*.compaction.requested")

    outcome = driver.carry_out(orders, Service.COMPACTION)

    assert type(outcome).__name__ == "NothingToDo"
    assert orders.timeline("*.compaction.requested") == plans


def test_a_table_with_properties_that_broke_off_is_not_opened(driver: Driver, orders: Orders) -> None:
    """They broke off after the table was observed. Hudi would go by the rest. With the line again, the run succeeds."""
    file = orders.path / ".hoodie" / "hoodie.properties"
    whole = file.read_text()
    file.with_name("hoodie.properties.backup").write_text(whole)
    file.write_text("".join(line for line in whole.splitlines(True) if not line.startswith("hoodie.record.merge.mode")))
    timeline = orders.timeline("*")
    outcome = driver.carry_out(orders, Service.COMPACTION)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind is FailureKind.TEMPORARY
    assert "it lacks hoodie.record.merge.mode, which hoodie.properties.backup has" in outcome.reason
    assert orders.timeline("*") == timeline

    file.write_text(whole)
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.found() == orders.expected


def test_a_cancelled_execution_yields(driver: Driver, orders: Orders) -> None:
    """A run that is cancelled while its Spark jobs run steps back, and the next one finishes its plan."""
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.pool.cancel(run, "the table is paused")

    assert driver.next(run, Ended).outcome == Yielded(reason="the table is paused")
    assert isinstance(driver.carry_out(orders, Service.COMPACTION, instant=plan.instant), Succeeded)
    assert orders.found() == orders.expected


@pytest.mark.core
def test_a_compaction_whose_jvm_was_killed_is_finished_by_another_run(driver: Driver, orders: Orders) -> None:
    """Kill -9 between execute and commit. Its heartbeat blocks the instant until it is silent. Then another run
    completes the instant, and leaves the heartbeats of writers alone.
    """
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    worker = psutil.Process(driver.pool._owner[run].process.pid)
    for jvm in worker.children():
        jvm.send_signal(signal.SIGKILL)
    driver.next(run, Lost)
    driver.until_ready()
    writers = orders.path / ".hoodie" / ".heartbeat" / "20200101000000000"
    writers.touch()

    barred = driver.carry_out(orders, Service.COMPACTION, instant=plan.instant)
    assert isinstance(barred, Failed)
    assert "heartbeat" in barred.reason
    orders.silence(plan.instant)
    freed = driver.submit(orders, Service.COMPACTION, instant=plan.instant)
    assert isinstance(driver.finish(freed), Succeeded)

    assert orders.found() == orders.expected
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1
    assert _heartbeats(orders) == [writers.name]


def test_a_worker_in_which_spark_has_stopped_is_replaced_and_its_run_is_lost(
    driver: Driver, orders: Orders, worker_faults: Path
) -> None:
    """After an error of Spark's scheduler the JVM lives, and each later run in it would fail. The run is lost, and the
    next one, in a new JVM, finishes its instant.
    """
    worker_faults.write_text(json.dumps([{"point": "executing", "act": "stop_spark", "service": "compaction"}]))
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.next(run, Lost)
    worker_faults.unlink()
    driver.until_ready()

    again = driver.submit(orders, Service.COMPACTION, instant=plan.instant)
    assert isinstance(driver.finish(again), Succeeded)
    assert orders.found() == orders.expected


def _avro(file: Path) -> tuple[dict[str, Any], Any]:
    """Return the one record of an Avro file, and its schema."""
    with file.open("rb") as content:
        reader: Any = fastavro.reader(content)
        [record] = reader
        return record, reader.writer_schema
