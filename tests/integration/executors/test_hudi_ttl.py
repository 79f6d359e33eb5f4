"""Hudi's TTL on real Spark: a commit that writers and readers know deletes expired partitions, and no others."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Ended, Granted, Lost, NothingToDo, Refused, Succeeded, Yielded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

WEEK: dict[str, Any] = {"days_retain": 7}


def _age(orders: Orders, *partitions: str, days: float = 8) -> None:
    """Make all files of the partitions so old."""
    then = time.time() - days * 86_400
    for partition in partitions:
        for file in (orders.path / partition).iterdir():
            os.utime(file, (then, then))


def _without(orders: Orders, *partitions: str) -> dict[str, str]:
    """Return the orders that are expected outside the partitions."""
    gone = {int(partition.removeprefix("p")) for partition in partitions}
    return {key: note for key, note in orders.expected.items() if int(key.removeprefix("o")) % 3 not in gone}


@pytest.mark.core
def test_expired_partitions_are_deleted_and_their_files_are_left_to_a_clean(driver: Driver, orders: Orders) -> None:
    """The plan counts and deletes nothing. Then the rows are gone, the files are not, and there is nothing more to do.
    The table's properties stay as they are.
    """
    properties = orders.path / ".hoodie" / "hoodie.properties"
    before = (properties.read_bytes(), properties.stat().st_mtime_ns)
    _age(orders, "p0")
    _age(orders, "p1", days=6)
    files = orders.data_files()
    run = driver.submit(orders, Service.TTL, **WEEK)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert (plan.instant, plan.partitions_to_delete, plan.files_to_delete) == (None, 1, 3)
    assert plan.bytes_to_delete == sum(path.stat().st_size for path in orders.path.glob("p0/*") if path.name in files)
    assert orders.found() == orders.expected
    assert orders.timeline("*.replacecommit*") == []

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["partitions_deleted"] == 1
    assert orders.found() == _without(orders, "p0")
    assert orders.data_files() == files
    assert list((orders.path / ".hoodie" / ".heartbeat").glob("2*")) == []
    assert (properties.read_bytes(), properties.stat().st_mtime_ns) == before
    assert isinstance(driver.carry_out(orders, Service.TTL, **WEEK), NothingToDo)
    orders.write()
    assert orders.found() == orders.expected  # a writer may come back to a partition that was deleted


def test_what_a_writer_touches_meanwhile_is_not_deleted(driver: Driver, orders: Orders) -> None:
    """A partition that was written to after the plan stays. While a write is in flight the run yields and leaves
    nothing.
    """
    _age(orders, "p0", "p1")
    run = driver.submit(orders, Service.TTL, **WEEK)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.partitions_to_delete == 2
    orders.write(keys=1)
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["partitions_deleted"] == 1
    assert orders.found() == _without(orders, "p1")

    _age(orders, "p2")
    begun = orders.timeline("*replacecommit*")
    write = time.strftime("%Y%m%d%H%M%S999", time.gmtime())
    (orders.path / ".hoodie" / "timeline" / f"{write}.deltacommit.requested").touch()
    assert isinstance(driver.carry_out(orders, Service.TTL, **WEEK), Yielded)
    assert orders.timeline("*replacecommit*") == begun


def test_savepoints_hold_partitions_and_files_against_every_service(driver: Driver, orders: Orders) -> None:
    """With a real savepoint neither ttl nor clean nor archive takes anything that it shows, and it can be read."""
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    client = HudiClient(orders.spark, str(orders.path), options, {}, indexes=orders.indexes())
    first = orders.timeline("*.deltacommit")[-1].split("_")[0]
    client.java.savepoint(first, "tester", "before a change")
    client.close()
    saved = orders.data_files()
    for _ in range(2):
        driver.carry_out(orders, Service.COMPACTION)
        orders.write()
    _age(orders, "p0", "p1", "p2")

    kept = driver.carry_out(orders, Service.TTL, **WEEK)
    assert isinstance(kept, NothingToDo)
    assert kept.reason.startswith(f"3 of the partitions older than 7 days are needed, 'p0' for one: savepoint {first}")
    driver.carry_out(orders, Service.CLEAN, policy="KEEP_LATEST_FILE_VERSIONS", file_versions_retained=1)
    driver.carry_out(orders, Service.ARCHIVE, keep_min_commits=2, keep_max_commits=3)

    assert saved <= orders.data_files()
    assert orders.timeline(f"{first}_*.deltacommit")
    assert orders.timeline(f"{first}_*.savepoint")
    assert orders.found() == orders.expected


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_below_table_version_8_partitions_expire_too(driver: Driver, orders: Orders, tmp_path: Path, kind: str) -> None:
    """Version 6, with and without a metadata table, has the same commit in the older layout."""
    conf = {
        "hoodie.write.table.version": "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": str(kind == "MERGE_ON_READ").lower(),
        "hoodie.datasource.write.table.type": kind,
    }
    old = dataclasses.replace(orders, path=tmp_path / "old", expected={}, conf=conf)
    old.write()
    _age(old, "p2")

    assert isinstance(driver.carry_out(old, Service.TTL, **WEEK), Succeeded)

    assert old.found() == _without(old, "p2")
    assert "hoodie.table.version=6" in (old.path / ".hoodie" / "hoodie.properties").read_text().splitlines()


def test_a_deletion_that_was_killed_half_way_is_rolled_back_and_done_again(
    driver: Driver, orders: Orders, worker_faults: Path
) -> None:
    """Kill -9 when its commit is in flight: every row is there, and after a rollback the next run deletes."""
    _age(orders, "p0")
    beats = orders.path / ".hoodie" / ".heartbeat"
    with suffering(worker_faults, "looking", "crash", service="ttl"):
        run = driver.submit(orders, Service.TTL, **WEEK)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert orders.timeline("*.replacecommit.requested")
    assert orders.found() == orders.expected
    driver.until_ready()
    [heartbeat] = beats.glob("2*")
    os.utime(heartbeat, (time.time() - 1200, time.time() - 1200))

    assert isinstance(driver.carry_out(orders, Service.ROLLBACK), Succeeded)
    assert isinstance(driver.carry_out(orders, Service.TTL, **WEEK), Succeeded)

    assert orders.found() == _without(orders, "p0")


def test_a_refused_deletion_leaves_nothing(driver: Driver, orders: Orders) -> None:
    """Beyond its budget nothing is begun on the timeline."""
    _age(orders, "p0")
    run = driver.submit(orders, Service.TTL, **WEEK)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="over budget"))
    assert driver.next(run, Ended).outcome == Yielded(reason="over budget")
    assert orders.timeline("*replacecommit*") == []
