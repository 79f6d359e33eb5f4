"""Real metadata tables that are made anew, because an operator has asked for it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import httpx
import pytest

from lakewarden.executors.contract import Failed, Granted, Lost, NothingToDo, Succeeded, Yielded
from lakewarden.planners.formats.hudi.options.service_options import MetadataRebuildOptions
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import WhenAsked
from tests.integration.executors.test_hudi_indexes import SMALL_FILES, Indexed, writing
from tests.integration.executors.test_hudi_metadata_validation import lie, validated
from tests.integration.iceberg.deletions import suffering
from tests.support.hudi.hudi_daemon import hudi_daemon
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

INDEXED = {
    **SMALL_FILES,
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "note",
}
OF_INDEXED = "column_stats,files,partition_stats,record_index"


@pytest.fixture
def table(written_orders: Orders, tmp_path: Path) -> Indexed:
    """Return a copy-on-write table with a record index and stats of one column, written twice."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    made = Indexed(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=INDEXED)
    made.put(*range(12))
    made.put(*range(6, 18))
    return made


def is_as_it_should_be(driver: Driver, table: Indexed) -> None:
    """Every index exists and matches the files, and readers with and without them find the writer's rows."""
    assert table.properties()["hoodie.table.metadata.partitions"] == OF_INDEXED
    assert Counter(row.key for row in table.entries(5, "key")) == Counter(dict.fromkeys(table.expected, 1))
    assert table.stats().items() >= table.stats_in_files().items()
    assert table.rows_with_and_without_skipping("note >= 'v'") == table.expected
    assert table.found() == table.expected
    assert validated(driver, table)["partitions_that_differ"] == 0


def test_a_metadata_table_is_made_anew_beside_a_writer(driver: Driver, table: Indexed) -> None:
    """It is triggered by REST. No write fails, nothing differs afterwards, its indexes exist again, and the writer
    continues.
    """
    lie(table)
    assert validated(driver, table)["partitions_that_differ"] == 1
    policies = {Service.METADATA_REBUILD: Policy(trigger=WhenAsked(), options=MetadataRebuildOptions())}
    with (
        driver.pool_lent() as pool,
        hudi_daemon(table.path, lock=table.lock, pool=pool, compacts_after=1000, policies=policies) as daemon,
        httpx.Client(base_url=daemon.url, timeout=60, verify=False) as api,
        writing(table) as written,
    ):
        answer = api.post("/v1/tables/sales.orders/services/metadata_rebuild/runs")
        assert answer.status_code == 202, answer.text
        daemon.succeeded(Service.METADATA_REBUILD)
        [run] = api.get("/v1/runs").json()["items"]
    assert written
    assert run["figures"]["indexes"] == OF_INDEXED.replace(",", ", ")
    table.put(*range(3, 27))
    is_as_it_should_be(driver, table)


def test_no_record_index_is_dropped_that_could_not_be_made_again(
    driver: Driver, table: Indexed, tmp_path: Path
) -> None:
    """A key is there twice, as after inserts in two partitions. Nothing is changed, and the writer goes on. A record
    index is not begun either.
    """
    twice = dataclasses.replace(table, conf={**table.conf, "hoodie.datasource.write.operation": "insert"})
    twice._save([("o0", "again", 9, "p1")])
    before = table.properties()

    outcome = driver.carry_out(table, Service.METADATA_REBUILD)

    assert isinstance(outcome, Failed)
    assert "the key 'o0' is in the table 2 times" in outcome.reason
    assert table.properties() == before
    table.put(20)

    without = dataclasses.replace(table, path=tmp_path / "without", conf=SMALL_FILES, expected={}, versions=0)
    without.put(0)
    without._save([("o0", "again", 9, "p1")])
    outcome = driver.carry_out(without, Service.INDEXING, build=["record_index"])
    assert isinstance(outcome, Failed)
    assert "cannot build a record index" in outcome.reason


def test_no_metadata_table_is_dropped_beside_a_write_in_flight(driver: Driver, table: Indexed) -> None:
    """The write may use it. The write is named, and nothing is changed."""
    before = table.properties()
    writer = table.client()
    write = str(writer.java.startCommit())

    outcome = driver.carry_out(table, Service.METADATA_REBUILD, max_wait_for_writers="1s")

    assert isinstance(outcome, Yielded), outcome
    assert write in outcome.reason
    assert table.properties() == before
    writer.close()


def leave_a_compaction_pending(table: Indexed) -> None:
    """Leave a compaction of the metadata table as if it was killed right before it was completed."""
    timeline = table.path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    table.conf = {**table.conf, "hoodie.metadata.compact.max.delta.commits": "1"}
    table.put(*range(12))
    completed = max(timeline.glob("*.commit"))
    completed.unlink()
    completed.with_name(f".{completed.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "hit", [2, *(pytest.param(hit, marks=pytest.mark.faults) for hit in (1, 3, 4))], ids=lambda hit: f"hit{hit}"
)
def test_a_rebuild_that_was_killed_leaves_a_table_for_every_reader_and_writer(
    driver: Driver, table: Indexed, worker_faults: Path, hit: int
) -> None:
    """This also holds if a compaction of the metadata table was pending. A writer that made a new one over the remains
    of the old one continued that compaction, and failed. The writer makes the indexes that it wants, and a rebuild can
    be requested again.
    """
    leave_a_compaction_pending(table)
    with suffering(worker_faults, "rebuilding", "crash", service="metadata_rebuild", hit=hit):
        run = driver.submit(table, Service.METADATA_REBUILD)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert table.found() == table.expected
    assert table.rows_with_and_without_skipping("note >= 'v'") == table.expected
    driver.until_ready()
    if hit == 2:
        assert isinstance(driver.carry_out(table, Service.METADATA_REBUILD), NothingToDo)

    table.put(*range(6, 18))
    is_as_it_should_be(driver, table)
    assert isinstance(driver.carry_out(table, Service.METADATA_REBUILD), Succeeded)
    table.put(*range(3))
    is_as_it_should_be(driver, table)
