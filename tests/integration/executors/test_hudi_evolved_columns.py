"""Columns that are renamed with `hoodie.schema.on.read.enable`: rewrites of files with the former columns."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Granted, Succeeded, Yielded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

ON_READ = {"hoodie.schema.on.read.enable": "true"}
SMALL = {**ON_READ, "hoodie.parquet.small.file.limit": "0"}
AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}


def rename_the_note(orders: Orders) -> None:
    """Do what `ALTER TABLE orders RENAME COLUMN note TO text` does."""
    options = HudiTableOptions.model_validate({"conf": ON_READ})
    with contextlib.closing(HudiClient(orders.spark, orders.location, options, {}, indexes={})) as client:
        client.java.getConfig().setValue("hoodie.write.concurrency.mode", "single_writer")
        client.java.setOperationType(client.hudi.common.model.WriteOperationType.ALTER_SCHEMA)
        client.java.renameColumn("note", "text")


def notes(orders: Orders, column: str) -> dict[str, str]:
    """Return the notes that Spark shows, under their name."""
    rows = orders.spark.read.format("hudi").options(**ON_READ).load(orders.address).select("order_id", column).collect()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1] for row in rows}


@pytest.mark.parametrize(
    ("kind", "layout"), [("MERGE_ON_READ", "linear"), ("COPY_ON_WRITE", "linear"), ("COPY_ON_WRITE", "none")]
)
def test_a_renamed_column_keeps_its_values_in_a_clustering(
    driver: Driver, written_orders: Orders, tmp_path: Path, kind: str, layout: str
) -> None:
    """Hudi looks for it by name in older files, unless it is given the ids of the columns. A copy has the old name."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    conf = {**SMALL, "hoodie.datasource.write.table.type": kind, "hoodie.datasource.write.operation": "insert"}
    table = dataclasses.replace(
        written_orders, path=tmp_path / "orders", lock=lock, conf=conf, expected={}, versions=written_orders.versions
    )
    for first in (0, 10):
        table._save([(f"o{key}", f"v{key}", 1, "p0") for key in range(first, first + 10)])
    rename_the_note(table)
    before = notes(table, "text")
    assert len(before) == 20
    assert None not in before.values()

    outcome = driver.carry_out(table, Service.CLUSTERING, layout=layout, **AT_ONCE)

    assert isinstance(outcome, Succeeded), outcome
    assert notes(table, "text") == before


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.LOG_COMPACTION])
def test_a_rewrite_that_was_planned_before_a_column_was_renamed_is_planned_anew(
    driver: Driver, orders: Orders, service: Service
) -> None:
    """Its files bear the plan's time, and readers would look for the former column in them."""
    options: dict[str, Any] = {"log_blocks_threshold": 2} if service is Service.LOG_COMPACTION else {}
    run = driver.submit(orders, service, **options)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    rename_the_note(orders)
    before = notes(orders, "text")
    assert None not in before.values()

    driver.pool.answer(run, Step.EXECUTE, Granted())

    assert isinstance(driver.finish(run), Yielded)
    assert notes(orders, "text") == before
    assert not orders.plans_of(service)
    assert isinstance(driver.carry_out(orders, service, **options), Succeeded)
    assert notes(orders, "text") == before
