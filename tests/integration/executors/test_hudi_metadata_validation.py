"""Real metadata tables that lie: what they list is held against what lies in the table's folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, NoOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits, WhenAsked
from tests.integration.conftest import Driver, Orders
from tests.integration.executors.test_hudi_indexes import SMALL_FILES, Indexed
from tests.support.hudi_daemon import hudi_daemon

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
    """Let the metadata table lack a file that was committed, and have one that is there no more: an old version, which
    nobody reads. Returns the two.
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


@pytest.mark.core
def test_a_metadata_table_that_lies_is_found_out_by_file(driver: Driver, table: Indexed) -> None:
    """Beside a write in flight, whose files are none of the table yet; and nothing is changed by looking."""
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


def test_a_person_asks_for_a_validation_and_nobody_else_does(driver: Driver, table: Indexed) -> None:
    """By REST, of a daemon whose every other service is held back by what the metadata table lacks; the run tells by
    name what differs. A table without metadata table has nothing to compare.
    """
    new, _ = lie(table)
    policies = {
        Service.METADATA_VALIDATION: Policy(trigger=WhenAsked(), options=NoOptions()),
        Service.CLEAN: Policy(trigger=NumCommits(at_least=1000), options=CleanOptions()),
    }
    with (
        driver.pool_lent() as pool,
        hudi_daemon(table.path, lock=table.lock, pool=pool, compacts_after=1000, policies=policies) as daemon,
        httpx.Client(base_url=daemon.url, timeout=60) as api,
    ):
        asked = api.post("/v1/tables/sales.orders/services/metadata_validation/runs")
        assert asked.status_code == 202, asked.text
        daemon.succeeded(Service.METADATA_VALIDATION)
        [run] = api.get("/v1/runs").json()
        assert run["id"] == asked.json()["id"]
        assert run["figures"]["unknown_to_metadata"] == new
        refused = api.post("/v1/tables/sales.orders/services/clean/runs")
        assert "does not know of" in refused.text

    dataclasses.replace(table, conf=WITHOUT_METADATA).put(*range(3))
    assert isinstance(driver.carry_out(table, Service.METADATA_VALIDATION), NothingToDo)
