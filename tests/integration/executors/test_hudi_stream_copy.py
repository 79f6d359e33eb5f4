"""Clustering without decoding (`layout: none`) on real Spark: what is copied, and what Hudi's copy would break."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from lakewarden.executors.contract import Succeeded
from lakewarden.planners.model.instant import Service
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AS_THEY_ARE: dict[str, Any] = {"layout": "none", "untouched_for": "0s"}
SMALL = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.parquet.small.file.limit": "0"}


class Added(Orders):
    """A copy-on-write table to which each batch adds a small file."""

    def add(self, keys: range, **conf: str) -> None:
        """Write these orders with further options of the writer."""
        writer = dataclasses.replace(self, conf={**self.conf, **{f"hoodie.{key}": one for key, one in conf.items()}})
        self.versions += 1
        rows = [(f"o{key}", f"v{self.versions}", self.versions, "p0") for key in keys]
        writer._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def row_groups(self) -> list[int]:
        """Return how many row groups each file of the latest commit has."""
        files = {path: path.name.rsplit("_", 1)[1] for path in (self.path / "p0").glob("*.parquet")}
        return [
            pyarrow.parquet.read_metadata(path).num_row_groups
            for path, of in files.items()
            if of == max(files.values())
        ]


@pytest.fixture
def table(written_orders: Orders, tmp_path: Path) -> Added:
    """Begin an empty table."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    return Added(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=SMALL)


def test_files_are_joined_row_group_by_row_group(driver: Driver, table: Added) -> None:
    """Every row is there once, under the new file's name, and the next upsert finds it."""
    for first in (0, 10, 20):
        table.add(range(first, first + 10))

    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **AS_THEY_ARE), Succeeded)

    assert table.row_groups() == [3]
    assert table.found() == table.expected
    table.add(range(5, 25))
    assert table.found() == table.expected


MIXED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "filters": {
        "first": {"index.type": "BLOOM", "bloom.index.filter.type": "SIMPLE"},
        "then": {"index.type": "BLOOM", "bloom.index.filter.type": "DYNAMIC_V0"},
    },
    "no_filter": {
        "first": {"index.type": "BLOOM"},
        "then": {"index.type": "SIMPLE", "parquet.bloom.filter.enabled": "false"},
    },
    "record_index": {
        "first": {"index.type": "RECORD_INDEX", "metadata.global.record.level.index.enable": "true"},
        "then": {"index.type": "RECORD_INDEX", "metadata.global.record.level.index.enable": "true"},
    },
}


@pytest.mark.parametrize("kind", MIXED)
def test_what_a_copy_would_break_is_decoded(driver: Driver, table: Added, kind: str) -> None:
    """Bloom filters that cannot be joined are decoded. So are files under an index of keys, which Hudi's copy does not
    tell.
    """
    first, then = MIXED[kind]["first"], MIXED[kind]["then"]
    table.add(range(10), **first)
    table.add(range(10, 20), **then)

    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **AS_THEY_ARE), Succeeded)

    assert table.row_groups() == [1]
    table.add(range(5, 15), **first)
    assert table.found() == table.expected
