"""A copy-on-write Hudi table with a copy of its metadata for Iceberg, and a daemon that is told to serve the copy."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.hudi.orders import Orders
from tests.support.iceberg.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lakewarden.demo.daemon import ZooKeeper
    from tests.support.daemon.daemon_process import DaemonProcess

pytestmark = pytest.mark.spark

ON_DEMAND = {"trigger": {"num_commits": 1000}}
SERVICES: dict[str, Any] = {
    "compaction": ON_DEMAND,
    "archive": ON_DEMAND,
    "clean": {**ON_DEMAND, "options": {"max_snapshot_age": "0s"}},
    "orphans": {"trigger": {"num_commits": 1000}, "options": {"unknown_for": "0s", "older_than": "1d"}},
}


def written(spark: Any, zookeeper: ZooKeeper, folder: Path) -> Orders:
    """Return a copy-on-write table with one commit."""
    lock = {"provider": "zookeeper", "url": zookeeper.address, "base_path": "/hudi", "lock_key": folder.name}
    conf = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    table = Orders(path=folder / "orders", lock=lock, spark=spark, conf=conf)
    table.write()
    return table


def nine_days_old(folder: Path) -> None:
    """Let every file be that old."""
    at = time.time() - 9 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (at, at))


@pytest.mark.parametrize("marked", [True, False])
def test_a_copy_in_the_folder_of_its_source_is_not_served(
    spark: Any,
    zookeeper: ZooKeeper,
    tmp_path: Path,
    daemon_of: Callable[..., DaemonProcess],
    *,
    marked: bool,
) -> None:
    """Without a mark of a tool it cannot be told which of the two tables a file belongs to. Either way no file is
    deleted.
    """
    table = written(spark, zookeeper, tmp_path)
    copy = Mirror(table, tmp_path, marked=marked)
    copy.sync()
    table.write()
    copy.sync()
    table.write()
    nine_days_old(table.path)
    files = table.data_files()

    daemon = daemon_of(copy, SERVICES)
    daemon.start()
    said = "a copy of the metadata of a Hudi table, made by Apache XTable" if marked else "also the folder of a Hudi"

    def decisions() -> Mapping[str, Any] | None:
        services = (daemon.get("/v1/tables/sales.orders") or {}).get("services") or {}
        return services if services and all(one["decision"] for one in services.values()) else None

    for service, one in daemon.until(decisions).items():
        assert one["decision"]["decision"] == "Blocked", one
        assert said in one["decision"]["reason"]
        answer = daemon.post(f"/v1/tables/sales.orders/services/{service}/runs")
        assert answer.is_client_error, answer.text
        assert said in answer.text

    assert table.data_files() == files
    assert table.found() == table.expected
    assert daemon.runs("clean") == []
