"""A Hudi table on a real S3 server: written by Spark, observed without it, and serviced by Lakewarden's programs."""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import psutil
import pytest
from hudi import HudiTable

from lakewarden.executors.contract import Succeeded
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import Storages
from tests.support.hudi.orders import Orders
from tests.support.object_stores.s3_server import BUCKET, SECRET_KEY, S3Server

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


@dataclasses.dataclass
class OrdersOnS3(Orders):
    """The orders, in the server's bucket. `path` is their location in it."""

    server: S3Server = dataclasses.field(kw_only=True)

    @property
    def location(self) -> str:
        return f"s3://{BUCKET}{self.path}"

    @property
    def address(self) -> str:
        return f"s3a://{BUCKET}{self.path}"

    def found(self) -> dict[str, str]:
        """Return the rows that hudi-rs finds. It reaches the server by settings of its own."""
        batches = HudiTable(self.location, self.server.options_of_hudi_rs()).read()
        rows = [row for batch in batches for row in batch.select(["order_id", "note"]).to_pylist()]
        assert len(rows) == len({row["order_id"] for row in rows})
        return {row["order_id"]: row["note"] for row in rows}

    def view(self) -> TableView:
        """Return Lakewarden's observation."""
        options = HudiTableOptions.model_validate({"lock": dict(self.lock)})
        table = Table(id=TableId("sales.orders"), format="hudi", location=self.location, options=options)
        storage = Storages([self.server.store()]).of(self.location)
        return HUDI.observe(table, storage, None, now=datetime.now(UTC)).view


@pytest.fixture
def orders_on_s3(written_orders: Orders, s3_server: S3Server, tmp_path: Path) -> OrdersOnS3:
    """Write a table three times, to S3."""
    s3_server.start()
    fresh = {"path": tmp_path / "orders", "expected": {}, "lock": {**written_orders.lock, "lock_key": "on-s3"}}
    table = OrdersOnS3(**{**vars(written_orders), **fresh}, server=s3_server)
    for _ in range(3):
        table.write()
    return table


def test_a_table_on_s3_is_observed_compacted_and_cleaned(driver: Driver, orders_on_s3: OrdersOnS3) -> None:
    """One setting reaches the reader without Spark and the workers' Spark. Plans name files as writers do, and the
    secret is in no command line. The worker executes one run after another.
    """
    orders = orders_on_s3
    view = orders.view()
    assert (view.faults, view.blockers) == ((), ())
    assert view.backlogs[Service.COMPACTION].commits == 3

    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    orders.write()
    cleaned = driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY)

    assert isinstance(cleaned, Succeeded)
    assert cleaned.figures["files_deleted"] == 9  # of three file groups, a base file and two log files each
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.found() == orders.expected
    view = orders.view()
    assert view.backlogs[Service.COMPACTION].commits == 0
    assert view.timeline.last_completed(Service.CLEAN) is not None
    assert all(name.startswith(orders.address) for name in _planned_to_delete(orders))
    [worker] = [one.process.pid for one in driver.pool._workers]
    family = [psutil.Process(worker), *psutil.Process(worker).children(recursive=True)]
    assert not any(SECRET_KEY in argument for process in family for argument in _command_line(process))


def _command_line(process: psutil.Process) -> list[str]:
    """Return a process's arguments. Empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie, too
        return []


def _planned_to_delete(orders: OrdersOnS3) -> list[str]:
    """Return the files in the newest plan of a clean."""
    files = orders.server.files()
    newest = max(files.glob(f"{orders.location}/.hoodie/timeline/*.clean.requested"))
    plans: Any = fastavro.reader(io.BytesIO(files.cat_file(newest)))
    [plan] = plans
    return [one["filePath"] for found in plan["filePathsToBeDeletedPerPartition"].values() for one in found]
