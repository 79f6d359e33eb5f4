"""Hudi's clean on real Spark: it reports what it deletes, deletes exactly that, and nothing that is needed."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, NothingToDo, Plan, Refused, Succeeded
from lakewarden.planners.model.instant import RunId, Service, Step
from tests.support.core import first_in_the_core

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


def _beside(orders: Orders, pattern: str) -> Path:
    [found] = (orders.path / ".hoodie" / "timeline").glob(pattern)
    return found


def _beat(orders: Orders, write: str, *, ago: int) -> None:
    """Set a write's last sign of life so many seconds back."""
    heartbeat = orders.path / ".hoodie" / ".heartbeat" / write
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - ago, time.time() - ago))


@pytest.mark.core
def test_a_clean_beside_an_executing_compaction_leaves_it_what_it_needs(driver: Driver, orders: Orders) -> None:
    """The clean of a table runs while its compaction executes, and both end with every row right."""
    driver.carry_out(orders, Service.COMPACTION)
    orders.write()
    compaction = driver.submit(orders, Service.COMPACTION)
    driver.advance(compaction, to=Step.COMMIT)
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
    """The plan counts the files. Nothing is deleted before the commit is granted, nor if it is refused."""
    driver.carry_out(orders, Service.COMPACTION)
    before = orders.data_files()
    sizes = {path.name: path.stat().st_size for path in orders.path.glob("p*/*")}
    run = driver.submit(orders, Service.CLEAN, largest_share=0, **NEWEST_ONLY)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_in_table == len(before)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="over budget"))
    driver.next(run, Ended)
    assert orders.data_files() == before
    assert not orders.plans_of(Service.CLEAN)

    anew = driver.submit(orders, Service.CLEAN, largest_share=0, **NEWEST_ONLY)
    assert driver.advance(anew, to=Step.COMMIT) == dataclasses.replace(
        plan, instant=orders.plans_of(Service.CLEAN).pop()
    )
    driver.pool.answer(anew, Step.COMMIT, Granted())

    assert isinstance(driver.next(anew, Ended).outcome, Succeeded)
    gone = before - orders.data_files()
    assert len(gone) == plan.files_to_delete
    assert sum(sizes[name] for name in gone) == plan.bytes_to_delete


def test_an_approved_clean_deletes_the_files_that_were_shown_whatever_was_committed_since(
    driver: Driver, orders: Orders
) -> None:
    """Its plan was withdrawn while it waited, by the run that took it up from a killed one. The plan that is made anew
    keeps the same commits.
    """
    for _ in range(2):
        driver.carry_out(orders, Service.COMPACTION)
        orders.write(keys=6)

    def planned(retained: str | None = None, instant: str | None = None) -> tuple[RunId, Plan, set[str]]:
        run = driver.submit(orders, Service.CLEAN, commits_retained=1, retained=retained, instant=instant)
        plan = driver.advance(run, to=Step.COMMIT)
        assert plan is not None
        record, _ = _avro(_beside(orders, f"{plan.instant}.clean.requested"))
        named = record["filePathsToBeDeletedPerPartition"].values()
        return run, plan, {one["filePath"].rpartition("/")[2] for files in named for one in files}

    left = orders.leave_clean(driver, commits_retained=1)
    run, plan, shown = planned(instant=left.instant)
    assert plan == left
    assert plan.retained
    driver.pool.answer(run, Step.COMMIT, Refused(reason="over budget"))
    driver.next(run, Ended)
    assert not orders.plans_of(Service.CLEAN)
    driver.carry_out(orders, Service.COMPACTION)
    orders.write(keys=6)
    run, without, more = planned()
    driver.pool.answer(run, Step.COMMIT, Refused(reason="over budget"))
    driver.next(run, Ended)
    assert shown < more
    assert (without.retained or "") > plan.retained

    run, anew, named = planned(plan.retained)

    assert (named, anew.retained, anew.files_to_delete) == (shown, plan.retained, plan.files_to_delete)
    before = orders.data_files()
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert before - orders.data_files() == shown
    assert orders.found() == orders.expected


@pytest.mark.parametrize("begun", first_in_the_core([False, True]))
def test_a_clean_that_would_delete_what_a_compaction_needs_deletes_nothing(
    driver: Driver, orders: Orders, begun: bool
) -> None:
    """A clean plan that overlaps a compaction planned after it is withdrawn. If the clean was begun, it is left for an
    operator.
    """
    driver.carry_out(orders, Service.COMPACTION)
    clean = orders.leave_clean(driver, **NEWEST_ONLY)
    to_delete = _first_file(_beside(orders, f"{clean.instant}.clean.requested"))
    _forge_compaction_of(orders, to_delete)
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
    """A write without a heartbeat may be alive, of a writer that is not LAZY, and stays. A write that has been silent
    for `dead_after` is rolled back. A write that is only as silent as a writer that pauses stays, too.
    """
    driver.carry_out(orders, Service.COMPACTION)
    timeline = orders.path / ".hoodie" / "timeline"
    write, slow, unseen = (time.strftime(f"%Y%m%d%H%M%S00{n}", time.gmtime()) for n in range(3))
    for state in ("requested", "inflight"):
        for begun in (write, slow, unseen):
            (timeline / f"{begun}.deltacommit.{state}").touch()
    _beat(orders, slow, ago=600)

    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    assert orders.timeline(f"{write}.deltacommit.inflight")
    assert orders.timeline("*.rollback") == []

    _beat(orders, write, ago=1200)
    orders.write()
    driver.carry_out(orders, Service.COMPACTION)
    patient = dataclasses.replace(orders, dead_after="1h")
    assert isinstance(driver.carry_out(patient, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    assert orders.timeline(f"{write}.deltacommit.inflight")
    orders.write()
    driver.carry_out(orders, Service.COMPACTION)
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    assert not orders.timeline(f"{write}.deltacommit.inflight")
    assert orders.timeline(f"{slow}.deltacommit.inflight")
    assert orders.timeline(f"{unseen}.deltacommit.inflight")
    assert len(orders.timeline("*.rollback")) == 1
    assert orders.found() == orders.expected


def test_a_clean_goes_on_by_as_many_commits_as_it_may(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """On a copy-on-write table without a metadata table the first clean takes all that its policy leaves. The next one
    takes no more than its bound, and the rest waits until after the next commit. The table's files are counted if
    asked.
    """
    conf = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.metadata.enable": "false"}
    cow = dataclasses.replace(orders, path=tmp_path / "cow", expected={}, conf=conf)
    properties = cow.path / ".hoodie" / "hoodie.properties"
    for _ in range(3):
        cow.write(keys=3)
    before = (properties.read_bytes(), properties.stat().st_mtime_ns)

    def clean(**options: Any) -> tuple[int | None, int | None]:
        run = driver.submit(cow, Service.CLEAN, largest_share=0, commits_retained=1, **options)
        plan = driver.advance(run, to=Step.COMMIT)
        assert plan is not None
        files = cow.data_files()
        driver.pool.answer(run, Step.COMMIT, Granted())
        assert isinstance(driver.finish(run), Succeeded)
        assert plan.files_in_table == len(files)
        assert plan.files_to_delete == len(files - cow.data_files())
        return plan.files_to_delete, plan.partitions_to_delete

    assert clean() == (3, 0)
    for _ in range(3):
        cow.write(keys=3)
    assert clean(max_commits_to_clean=1) == (3, 0)
    cow.write(keys=3)
    assert clean(max_commits_to_clean=1) == (3, 0)
    assert cow.found() == cow.expected
    assert (properties.read_bytes(), properties.stat().st_mtime_ns) == before


def test_a_clean_by_hours_deletes_nothing_younger(driver: Driver, orders: Orders) -> None:
    """Files that were superseded for less than an hour stay. An empty clean records, once an hour, how far it has
    looked.
    """
    driver.carry_out(orders, Service.COMPACTION)
    before = orders.data_files()
    by_hours: dict[str, Any] = {"policy": "KEEP_LATEST_BY_HOURS", "hours_retained": 1}

    outcome = driver.carry_out(orders, Service.CLEAN, **by_hours)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 0
    assert orders.data_files() == before
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **by_hours), NothingToDo)
    assert len(orders.timeline("*_*.clean")) == 1


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
