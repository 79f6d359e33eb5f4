"""Real metadata tables with errors: what they list is compared with the files in the table's folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Succeeded
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, NoOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits, WhenAsked
from tests.integration.executors.test_hudi_indexes import SMALL_FILES, Indexed
from tests.support.hudi.hudi_daemon import hudi_daemon
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

WITHOUT_METADATA = {**SMALL_FILES, "hoodie.metadata.enable": "false"}


@pytest.fixture
def table(written_orders: Orders, tmp_path: Path) -> Indexed:
    """Return a copy-on-write table that was written twice."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    made = Indexed(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=SMALL_FILES)
    made.put(*range(12))
    made.put(*range(6, 18))
    return made


def lie(table: Indexed) -> tuple[str, str]:
    """Let the metadata table lack a file that was committed, and list one that is gone: an old version, which is not
    read. Return the two.
    """
    old = min(table.path.glob("p0/*.parquet"), key=lambda path: path.stat().st_mtime)
    before = table.data_files()
    metadata, aside = (table.path / ".hoodie" / name for name in ("metadata", "metadata.aside"))
    kept = {file: file.read_bytes() for file in metadata.parent.glob("*hoodie.properties*")}  # with its checksum
    metadata.rename(aside)
    dataclasses.replace(table, conf=WITHOUT_METADATA).put(30)
    table.versions += 1
    aside.rename(metadata)
    for file, content in kept.items():
        file.write_bytes(content)
    [new] = table.data_files() - before
    old.unlink()
    return f"p0/{new}", f"p0/{old.name}"


def validated(driver: Driver, table: Indexed) -> Mapping[str, Any]:
    outcome = driver.carry_out(table, Service.METADATA_VALIDATION)
    assert isinstance(outcome, Succeeded), outcome
    return outcome.figures


def content(table: Indexed) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in table.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("service", "options"),
    [(Service.COMPACTION, {}), (Service.CLUSTERING, {"untouched_for": "0s", "sort_columns": ["note"]})],
    ids=["compaction", "clustering"],
)
def test_a_plan_from_a_metadata_table_that_has_lost_a_file_is_not_executed(
    driver: Driver, orders: Orders, service: Service, options: Mapping[str, Any]
) -> None:
    """It would lose the rows of that file for good. The metadata table is made anew, and the next plan has them."""
    orders.write()
    logs = (orders.path / ".hoodie/metadata/files").glob(".files*.log.*")
    max(logs, key=lambda file: file.name.split("_")[1]).unlink()

    outcome = driver.carry_out(orders, service, **options)

    assert isinstance(outcome, Failed), outcome
    assert outcome.kind is FailureKind.PERMANENT
    assert "the metadata table does not list" in outcome.reason
    assert orders.plans_of(service) == set()
    assert isinstance(driver.carry_out(orders, Service.METADATA_REBUILD), Succeeded)
    assert isinstance(driver.carry_out(orders, service, **options), Succeeded)
    assert orders.found() == orders.expected


@pytest.mark.core
def test_differences_of_a_metadata_table_are_found_by_file(driver: Driver, table: Indexed) -> None:
    """It runs beside a write in flight, whose files are not part of the table yet. It changes nothing."""
    writer = table.client()
    write = str(writer.java.startCommit())
    (table.path / "p1" / f"00000000-0000-0000-0000-000000000000-0_0-1-1_{write}.parquet").write_bytes(b"at work")
    figures = validated(driver, table)
    assert (
        figures.items()
        >= {
            "partitions": 3,
            "files": len(table.data_files()),
            "files_unknown_to_metadata": 0,
            "files_only_in_metadata": 0,
            "partitions_that_differ": 0,
        }.items()
    )
    writer.close()
    new, old = lie(table)
    before = content(table)

    figures = validated(driver, table)

    assert (figures["unknown_to_metadata"], figures["only_in_metadata"]) == (new, old)
    assert (figures["files_unknown_to_metadata"], figures["files_only_in_metadata"]) == (1, 1)
    assert content(table) == before


def test_a_validation_runs_only_when_an_operator_asks_for_it(driver: Driver, table: Indexed) -> None:
    """It is triggered by REST, of a daemon whose other services are all held back because the metadata table lacks a
    commit. The run names what differs. A table without metadata table has nothing to compare.
    """
    new, _ = lie(table)
    policies = {
        Service.METADATA_VALIDATION: Policy(trigger=WhenAsked(), options=NoOptions()),
        Service.CLEAN: Policy(trigger=NumCommits(at_least=1000), options=CleanOptions()),
    }
    with (
        driver.pool_lent() as pool,
        hudi_daemon(table.path, lock=table.lock, pool=pool, compacts_after=1000, policies=policies) as daemon,
        httpx.Client(base_url=daemon.url, timeout=60, verify=False) as api,
    ):
        asked = api.post("/v1/tables/sales.orders/services/metadata_validation/runs")
        assert asked.status_code == 202, asked.text
        daemon.succeeded(Service.METADATA_VALIDATION)
        [run] = api.get("/v1/runs").json()["items"]
        assert run["id"] == asked.json()["id"]
        assert run["figures"]["unknown_to_metadata"] == new
        refused = api.post("/v1/tables/sales.orders/services/clean/runs")
        assert "the metadata table lacks" in refused.text

    dataclasses.replace(table, conf=WITHOUT_METADATA).put(*range(3))
    assert isinstance(driver.carry_out(table, Service.METADATA_VALIDATION), NothingToDo)
