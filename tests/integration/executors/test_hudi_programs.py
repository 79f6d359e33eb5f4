"""Hudi's compaction and clean on real Spark, each step by its permit, beside a real lock."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import psutil
import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, Lost, Refused, Step, Succeeded, Yielded
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.integration.conftest import Driver, Orders

pytestmark = pytest.mark.spark

NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


def _heartbeats(orders: Orders) -> list[str]:
    return sorted(p.name for p in (orders.path / ".hoodie" / ".heartbeat").glob("2*"))


def _beside(orders: Orders, pattern: str) -> Path:
    [found] = (orders.path / ".hoodie" / "timeline").glob(pattern)
    return found


def test_a_compaction_is_signed_sized_executed_and_only_then_committed(driver: Driver, orders: Orders) -> None:
    """The plan names our run and its size, execution writes files that nobody sees, the commit shows them."""
    properties = (orders.path / ".hoodie" / "hoodie.properties").read_bytes()
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.climb(run, to=Step.COMMIT)

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
    assert outcome.figures["file_groups"] == 3
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1
    assert {name for name in orders.data_files() if f"_{plan.instant}.parquet" in name} == written  # written once
    assert orders.found() == orders.expected
    assert _heartbeats(orders) == []
    assert (orders.path / ".hoodie" / "hoodie.properties").read_bytes() == properties


def test_a_refused_commit_leaves_the_plan_to_the_next_run(driver: Driver, orders: Orders) -> None:
    """What was executed is not committed, no heartbeat bars the instant, and the next run completes it at once."""
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.climb(run, to=Step.COMMIT)
    assert plan is not None
    driver.pool.answer(run, Step.COMMIT, Refused(reason="a writer is busy"))
    assert driver.next(run, Ended).outcome == Yielded(reason="a writer is busy")
    assert orders.timeline("*.commit") == []
    assert _heartbeats(orders) == []

    assert isinstance(driver.carry_out(orders, Service.COMPACTION, instant=plan.instant), Succeeded)
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1
    assert orders.found() == orders.expected


def test_below_table_version_8_a_refused_plan_is_withdrawn(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """There a compaction that merely waits fails writers; a plan that may not be executed now is taken back. The
    table keeps its version and its layout through a whole compaction.
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
    plan = driver.climb(first, to=Step.COMMIT)
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


def test_a_cancelled_execution_yields(driver: Driver, orders: Orders) -> None:
    """Cancelled while its Spark jobs run, a run steps back, and the next one finishes what it planned."""
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.climb(run, to=Step.EXECUTE)
    assert plan is not None
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.pool.cancel(run, "the table is paused")

    assert driver.next(run, Ended).outcome == Yielded(reason="the table is paused")
    assert isinstance(driver.carry_out(orders, Service.COMPACTION, instant=plan.instant), Succeeded)
    assert orders.found() == orders.expected


def test_a_clean_beside_an_executing_compaction_leaves_it_what_it_needs(driver: Driver, orders: Orders) -> None:
    """The clean of a table runs while its compaction executes, and both end with every row right."""
    driver.carry_out(orders, Service.COMPACTION)
    orders.write()
    compaction = driver.submit(orders, Service.COMPACTION)
    driver.climb(compaction, to=Step.COMMIT)
    before = orders.data_files()

    outcome = driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY)

    assert isinstance(outcome, Succeeded)
    gone = before - orders.data_files()
    assert gone
    assert len(gone) == outcome.figures["files_deleted"]
    driver.pool.answer(compaction, Step.COMMIT, Granted())
    assert isinstance(driver.next(compaction, Ended).outcome, Succeeded)
    assert orders.found() == orders.expected


def test_a_clean_tells_before_it_deletes_how_much_it_will(driver: Driver, orders: Orders) -> None:
    """The plan counts the files; nothing is deleted before the commit is granted, nor if it is refused."""
    driver.carry_out(orders, Service.COMPACTION)
    before = orders.data_files()
    run = driver.submit(orders, Service.CLEAN, **NEWEST_ONLY)
    plan = driver.climb(run, to=Step.COMMIT)
    assert plan is not None
    driver.pool.answer(run, Step.COMMIT, Refused(reason="over budget"))
    driver.next(run, Ended)
    assert orders.data_files() == before

    taken_up = driver.submit(orders, Service.CLEAN, **NEWEST_ONLY)
    assert driver.climb(taken_up, to=Step.COMMIT) == plan
    driver.pool.answer(taken_up, Step.COMMIT, Granted())

    assert isinstance(driver.next(taken_up, Ended).outcome, Succeeded)
    assert len(before - orders.data_files()) == plan.files_to_delete


@pytest.mark.parametrize("begun", [False, True])
def test_a_clean_that_would_delete_what_a_compaction_needs_deletes_nothing(
    driver: Driver, orders: Orders, begun: bool
) -> None:
    """A clean plan that overlaps a compaction planned after it is withdrawn; one that somebody has begun is left
    for a person to look at.
    """
    driver.carry_out(orders, Service.COMPACTION)
    clean = driver.leave_planned(orders, Service.CLEAN, **NEWEST_ONLY)
    doomed = _first_file(_beside(orders, f"{clean.instant}.clean.requested"))
    _forge_compaction_of(orders, doomed)
    if begun:
        _beside(orders, f"{clean.instant}.clean.requested").with_name(f"{clean.instant}.clean.inflight").touch()
    before = orders.data_files()

    outcome = driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)

    assert isinstance(outcome, Failed)
    assert outcome.kind is (FailureKind.PERMANENT if begun else FailureKind.TEMPORARY)
    assert "compaction 99999999999999999 needs it" in outcome.reason
    assert orders.data_files() == before
    assert bool(orders.timeline(f"{clean.instant}.clean.requested")) is begun


def test_a_clean_rolls_back_dead_writes_and_no_others(driver: Driver, orders: Orders) -> None:
    """A write without a heartbeat may be alive, of a writer that is not LAZY: it stays. One that has been silent for
    longer than any writer is rolled back.
    """
    driver.carry_out(orders, Service.COMPACTION)
    timeline = orders.path / ".hoodie" / "timeline"
    write = time.strftime("%Y%m%d%H%M%S000", time.gmtime())
    for state in ("requested", "inflight"):
        (timeline / f"{write}.deltacommit.{state}").touch()

    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    assert orders.timeline(f"{write}.deltacommit.inflight")
    assert orders.timeline("*.rollback") == []

    heartbeat = orders.path / ".hoodie" / ".heartbeat" / write
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - 1200, time.time() - 1200))
    orders.write()
    driver.carry_out(orders, Service.COMPACTION)
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    assert not orders.timeline(f"{write}.deltacommit.inflight")
    assert len(orders.timeline("*.rollback")) == 1
    assert orders.found() == orders.expected


def test_a_compaction_whose_jvm_was_killed_is_finished_by_another_run(driver: Driver, orders: Orders) -> None:
    """Kill -9 between execute and commit: the run is lost, and within half a minute its instant can be completed."""
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.climb(run, to=Step.COMMIT)
    assert plan is not None
    worker = psutil.Process(driver.pool._owner[run].process.pid)
    for jvm in worker.children():
        jvm.send_signal(signal.SIGKILL)
    driver.next(run, Lost)
    killed = time.monotonic()
    driver.until_ready()

    outcome: Any = None
    while not isinstance(outcome, Succeeded):
        outcome = driver.carry_out(orders, Service.COMPACTION, instant=plan.instant)
        assert time.monotonic() - killed < 45, outcome
        time.sleep(1)

    assert orders.found() == orders.expected
    assert len(orders.timeline(f"{plan.instant}_*.commit")) == 1


def _avro(file: Path) -> tuple[dict[str, Any], Any]:
    """Return the one record of an Avro file, and its schema."""
    with file.open("rb") as content:
        reader: Any = fastavro.reader(content)
        [record] = reader
        return record, reader.writer_schema


def _first_file(clean_plan: Path) -> tuple[str, str]:
    """Return partition and name of one base file that a clean plan deletes."""
    record, _ = _avro(clean_plan)
    return next(
        (partition, one["filePath"].rpartition("/")[2])
        for partition, files in record["filePathsToBeDeletedPerPartition"].items()
        for one in files
        if one["filePath"].endswith(".parquet")
    )


def _forge_compaction_of(orders: Orders, file: tuple[str, str]) -> None:
    """Put a compaction on the timeline that reads `file`, as another planner might."""
    source = _beside(orders, "*.compaction.requested")
    record, schema = _avro(source)
    partition, name = file
    operation = {**record["operations"][0], "partitionPath": partition, "dataFilePath": name}
    with source.with_name("99999999999999999.compaction.requested").open("wb") as content:
        fastavro.writer(content, schema, [{**record, "operations": [operation]}])
