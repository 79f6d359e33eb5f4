"""On real Spark: rows that are written into a dropped partition while its clean waits are never lost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakewarden.executors.contract import Failed, FailureKind, Granted, Lost, NothingToDo, Succeeded, Yielded
from lakewarden.executors.programs.hudi import clean
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.metadata.plans import HudiPlan, clean_plan
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


def _drop_p0(driver: Driver, orders: Orders) -> set[str]:
    """Let a ttl drop a partition, and return the names of its files."""
    then = time.time() - 8 * 86_400
    files = {file for file in (orders.path / "p0").iterdir() if "metadata" not in file.name and file.suffix != ".crc"}
    for file in (orders.path / "p0").iterdir():
        os.utime(file, (then, then))
    assert isinstance(driver.carry_out(orders, Service.TTL, days_retain=7), Succeeded)
    return {file.name for file in files}


@contextlib.contextmanager
def _hudis_own_client(orders: Orders) -> Iterator[HudiClient]:
    """Open the table as another cleaner does."""
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    settings = clean.settings(CleanOptions.model_validate(NEWEST_ONLY))
    client = HudiClient(orders.spark, str(orders.path), options, settings, indexes=orders.indexes())
    yield client
    client.close()


def _plan_as_another_cleaner(orders: Orders) -> str:
    """Leave a clean on the timeline as Hudi itself plans it."""
    with _hudis_own_client(orders) as client:
        instant = client.schedule("CLEAN", extra_metadata={})
    assert instant is not None
    return instant


def _planned(orders: Orders, instant: str) -> HudiPlan:
    with (orders.path / ".hoodie" / "timeline" / f"{instant}.clean.requested").open("rb") as content:
        [record] = fastavro.reader(content)
    assert isinstance(record, dict)
    return clean_plan(record)


def test_a_clean_of_ours_waits_without_a_folder_to_delete(driver: Driver, orders: Orders) -> None:
    """So no client that executes it deletes rows that come late. The budget counts the partition nevertheless, and the
    approved plan is the one that is executed.
    """
    dropped = _drop_p0(driver, orders)
    plan = orders.leave_clean(driver, **NEWEST_ONLY)
    assert (plan.files_to_delete, plan.partitions_to_delete) == (3, 1)
    assert plan.instant is not None
    waiting = _planned(orders, plan.instant)
    assert not waiting.partitions
    assert waiting.emptied == 1
    orders.write()

    run = driver.submit(orders, Service.CLEAN, instant=plan.instant, **NEWEST_ONLY)
    assert driver.advance(run, to=Step.COMMIT) == plan
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 3
    assert not dropped & orders.data_files()
    assert orders.found() == orders.expected


def test_a_foreign_clean_of_a_folder_deletes_what_it_names_alone(driver: Driver, orders: Orders) -> None:
    """This also holds for a clean that was begun. A writer writes into the partition while the clean is executed."""
    dropped = _drop_p0(driver, orders)
    instant = _plan_as_another_cleaner(orders)
    assert _planned(orders, instant).partitions == {"p0"}
    (orders.path / ".hoodie" / "timeline" / f"{instant}.clean.inflight").touch()
    orders.write()
    run = driver.submit(orders, Service.CLEAN, instant=instant, **NEWEST_ONLY)
    driver.advance(run, to=Step.COMMIT)

    def write_on() -> None:
        for _ in range(2):
            orders.write()

    writer = threading.Thread(target=write_on)
    writer.start()
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)
    writer.join()

    assert isinstance(outcome, Succeeded)
    assert orders.timeline(f"{instant}_*.clean")
    assert not dropped & orders.data_files()
    assert orders.found() == orders.expected


def test_a_clean_that_was_killed_deletes_nothing_that_was_written_since(
    driver: Driver, orders: Orders, worker_faults: Path
) -> None:
    """Kill -9 when the clean has deleted and is in flight: the next run ends it, and the rows of the meantime are
    there. Hudi completes a clean last of all, so one without its completion is what a kill before that leaves.
    """
    dropped = _drop_p0(driver, orders)
    instant = _plan_as_another_cleaner(orders)
    with suffering(worker_faults, "committed", "crash", service="clean"):
        run = driver.submit(orders, Service.CLEAN, instant=instant, **NEWEST_ONLY)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    [completed] = orders.timeline(f"{instant}_*.clean")
    (orders.path / ".hoodie" / "timeline" / completed).unlink()
    assert orders.timeline(f"{instant}.clean.inflight")
    orders.write()
    driver.until_ready()

    assert isinstance(driver.carry_out(orders, Service.CLEAN, instant=instant, **NEWEST_ONLY), Succeeded)

    assert not dropped & orders.data_files()
    assert orders.found() == orders.expected


def test_below_table_version_8_no_folder_goes_either(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """Version 6, copy-on-write, without a metadata table, has another timeline and the same rule."""
    conf = {
        "hoodie.write.table.version": "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    }
    old = dataclasses.replace(orders, path=tmp_path / "old", expected={}, conf=conf)
    old.write()
    dropped = _drop_p0(driver, old)
    with _hudis_own_client(old) as client:
        instant = client.schedule("CLEAN", extra_metadata={})
    (old.path / ".hoodie" / f"{instant}.clean.inflight").touch()
    old.write()

    assert isinstance(driver.carry_out(old, Service.CLEAN, instant=instant, **NEWEST_ONLY), Succeeded)

    assert (old.path / ".hoodie" / f"{instant}.clean").exists()
    assert not dropped & old.data_files()
    assert old.found() == old.expected


def test_a_folder_without_files_is_no_reason_to_clean(driver: Driver, orders: Orders) -> None:
    """Nothing is left of a plan that names only a folder. Hudi's own client could not even complete it."""
    _drop_p0(driver, orders)
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), Succeeded)
    orders._save([("o1", "again", 99, "p1")])  # a clean is planned after a commit
    orders.expected["o1"] = "again"
    instant = _plan_as_another_cleaner(orders)
    assert _planned(orders, instant).partitions == {"p0"}
    assert not _planned(orders, instant).files
    (orders.path / ".hoodie" / "timeline" / f"{instant}.clean.inflight").touch()

    outcome = driver.carry_out(orders, Service.CLEAN, instant=instant, **NEWEST_ONLY)

    assert isinstance(outcome, Yielded)
    assert "names only folders" in outcome.reason
    assert orders.timeline(f"{instant}*") == []
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), NothingToDo)


def test_a_clean_is_withdrawn_where_what_superseded_its_files_was_undone(driver: Driver, orders: Orders) -> None:
    """The compaction on which a pending clean rests is rolled back after it was completed, as an operator may do."""
    driver.carry_out(orders, Service.COMPACTION)
    plan = orders.leave_clean(driver, **NEWEST_ONLY)
    [compaction] = orders.timeline("*_*.commit")
    with _hudis_own_client(orders) as client:
        assert client.java.rollback(compaction.partition("_")[0])
    before = orders.data_files()

    outcome = driver.carry_out(orders, Service.CLEAN, instant=plan.instant, **NEWEST_ONLY)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert "the newest version of the table needs it. The plan was withdrawn" in outcome.reason
    assert orders.data_files() == before
    assert orders.timeline(f"{plan.instant}*") == []
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY), NothingToDo)
    assert orders.found() == orders.expected
