"""Incremental readers on real Spark: a stream that was stopped in the middle of a batch continues there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest
from pyspark.errors import StreamingQueryException

from lakewarden.executors.contract import Failed, FailureKind, Succeeded
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

ONE_COMMIT: dict[str, Any] = {"policy": "KEEP_LATEST_COMMITS", "commits_retained": 1}
KEEP: dict[str, Any] = {"keep_min_commits": 2, "keep_max_commits": 3}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "1"}


@dataclasses.dataclass(frozen=True)
class _Declared:
    """A table whose owner has declared a stream that reads it."""

    orders: Orders
    folder: Path

    @property
    def assigned(self) -> Mapping[str, Any]:
        reader = {"name": "stream", "checkpoint": str(self.folder / "checkpoint")}
        options = {**self.orders.assigned["table_options"], "readers": [reader]}
        return {**self.orders.assigned, "table_options": options}


def _stream(orders: Orders, folder: Path, *, dies: bool = False) -> None:
    """Let a stream read new rows, in one batch, and let it die there if asked."""

    def keep(frame: Any, batch: int) -> None:
        if dies:
            raise RuntimeError("it died in its batch")
        frame.select("order_id", "note").write.mode("overwrite").parquet(str(folder / f"batch-{batch}"))

    stream = orders.spark.readStream.format("hudi").load(orders.address).writeStream.foreachBatch(keep)
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(once=True)
    stream.start().awaitTermination()


def _batch(folder: Path, batch: int) -> dict[str, str]:
    rows = pyarrow.parquet.read_table(folder / f"batch-{batch}").to_pylist()
    return {row["order_id"]: row["note"] for row in rows}


def _left_behind(driver: Driver, orders: Orders, folder: Path) -> dict[str, str]:
    """Let a stream die in its second batch, and write and compact meanwhile. Return what that batch has to read."""
    orders.conf = OFTEN
    _stream(orders, folder)
    assert _batch(folder, 0) == orders.expected
    orders.write()
    with pytest.raises(StreamingQueryException):
        _stream(orders, folder, dies=True)
    then = dict(orders.expected)
    for _ in range(2):
        orders.write()
        driver.carry_out(orders, Service.COMPACTION)
    return then


def test_a_stream_that_is_declared_finds_every_row_after_cleans_and_archives(
    driver: Driver, orders: Orders, tmp_path: Path
) -> None:
    """Unread commits are not cleaned, and the batch is read once more as it was. A clean that was planned before the
    declaration is withdrawn. Once the stream has read everything, the clean and the archive continue.
    """
    declared = _Declared(orders, tmp_path)
    then = _left_behind(driver, orders, tmp_path)
    before = orders.data_files()
    clean = orders.leave_clean(driver, **ONE_COMMIT)
    refused = driver.carry_out(declared, Service.CLEAN, instant=clean.instant, **ONE_COMMIT)
    assert isinstance(refused, Failed)
    assert refused.kind is FailureKind.TEMPORARY
    assert "what reader stream at" in refused.reason
    assert not orders.timeline(f"{clean.instant}.clean*")
    driver.carry_out(declared, Service.CLEAN, **ONE_COMMIT)
    unread = orders.timeline("*_*.deltacommit")[3:]
    driver.carry_out(declared, Service.ARCHIVE, **KEEP)
    assert before <= orders.data_files()
    assert set(unread) <= set(orders.timeline("*_*.deltacommit"))

    _stream(orders, tmp_path)
    assert _batch(tmp_path, 1) == then
    _stream(orders, tmp_path)
    assert _batch(tmp_path, 2) == orders.expected

    assert isinstance(driver.carry_out(declared, Service.CLEAN, **ONE_COMMIT), Succeeded)
    assert not before <= orders.data_files()
    assert orders.found() == orders.expected


def test_a_stream_that_is_not_declared_misses_rows_after_a_clean(
    driver: Driver, orders: Orders, tmp_path: Path
) -> None:
    """The declaration prevents this: all rows of its batch are gone, and there is no error."""
    then = _left_behind(driver, orders, tmp_path)
    assert isinstance(driver.carry_out(orders, Service.CLEAN, **ONE_COMMIT), Succeeded)
    _stream(orders, tmp_path)
    assert not _batch(tmp_path, 1).keys() & then.keys()
