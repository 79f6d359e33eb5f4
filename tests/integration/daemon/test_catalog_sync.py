"""A started daemon, a real Hive metastore, and a writer that syncs into it by Hudi's own client."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.formats.hudi.deletion.expiry import MARK
from lakewarden.planners.storage import Storages
from tests.support.catalogs.metastore import RealMetastore
from tests.support.daemon.daemon_process import TABLE, DaemonProcess
from tests.support.doubles.fault_points import VARIABLE

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

KNOWN_AS = ("orders_ro", "orders_rt")


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[RealMetastore]:
    folder = tmp_path / "metastore"
    folder.mkdir()
    started = RealMetastore(folder)
    yield started
    started.stop()


def _syncing(orders: Orders, metastore: RealMetastore) -> Orders:
    """Return the table with a writer that syncs it, as `sales.orders`."""
    conf = {
        "hoodie.datasource.hive_sync.enable": "true",
        "hoodie.datasource.hive_sync.mode": "hms",
        "hoodie.datasource.hive_sync.metastore.uris": metastore.uri,
        "hoodie.datasource.hive_sync.database": "sales",
        "hoodie.datasource.hive_sync.table": "orders",
        "hoodie.datasource.hive_sync.partition_fields": "region",
    }
    return dataclasses.replace(orders, conf={**orders.conf, **conf})


def test_a_metastore_that_was_away_lists_no_deleted_partition_in_the_end(
    metastore: RealMetastore,
    orders: Orders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ttl succeeds while the metastore is down, and says so. The daemon is killed. The next one tells the metastore,
    even if its worker is killed right after that. A partition that a writer fills again stays in the list.
    """
    metastore.wait()
    metastore.create_database("sales")
    writer = _syncing(orders, metastore)
    writer.write()
    assert _listed(metastore) == {name: ["p0", "p1", "p2"] for name in KNOWN_AS}
    found = HUDI.tables_in("hms", HiveCatalog(type="hive", uri=metastore.uri), Storages().of("catalog://hms/any.t"))
    assert found.locations == {"sales.orders": orders.location}
    faults = tmp_path / "faults"
    monkeypatch.setenv(VARIABLE, str(faults))
    services = {
        "ttl": {"trigger": {"num_commits": 1}, "options": {"days_retain": 7, "partition_selected": ["p0"]}},
        "catalog_sync": {
            "trigger": {"num_commits": 1},
            "options": {"uri": metastore.uri, "database": "sales", "table": "orders", "timeout": "2s"},
        },
    }
    daemon = daemon_of(orders, services)
    _age(orders, "p0")
    metastore.stop()

    daemon.start()
    daemon.until(lambda: _succeeded(daemon, "ttl"))
    told = daemon.until(lambda: _blocked(daemon, "does not answer"))
    assert "sales.orders at thrift://" in told["reason"]
    assert "may still list partitions" in json.dumps(_explained(daemon))
    assert [run["state"] for run in daemon.runs("ttl")].count("FAILED") == 0
    daemon.kill()

    metastore.start()
    metastore.wait()
    assert _listed(metastore) == {name: ["p0", "p1", "p2"] for name in KNOWN_AS}
    faults.write_text(json.dumps([{"point": "dropped", "act": "crash"}]))
    daemon.start()
    daemon.until(lambda: "session_worker_gone" in daemon.log.read_text())
    faults.unlink()
    assert _listed(metastore) == {name: ["p1", "p2"] for name in KNOWN_AS}
    daemon.post(f"/v1/tables/{TABLE}/resume").raise_for_status()
    daemon.until(lambda: _succeeded(daemon, "catalog_sync"))
    assert _figures(daemon) == [0]

    writer.write()
    assert _listed(metastore) == {name: ["p0", "p1", "p2"] for name in KNOWN_AS}
    (orders.path / ".hoodie" / MARK).unlink()
    daemon.post(f"/v1/tables/{TABLE}/services/catalog_sync/runs").raise_for_status()
    daemon.until(lambda: _figures(daemon) == [0, 0])
    assert _listed(metastore) == {name: ["p0", "p1", "p2"] for name in KNOWN_AS}
    assert daemon.stop() == 0
    assert orders.found() == writer.expected


def _age(orders: Orders, partition: str) -> None:
    then = time.time() - 8 * 86_400
    for file in (orders.path / partition).iterdir():
        os.utime(file, (then, then))


def _listed(metastore: RealMetastore) -> Mapping[str, list[str]]:
    """Return the values of the partitions that the metastore lists."""
    tables = [name for name in metastore.tell("get_all_tables", "sales") if name.startswith("orders")]
    names = {name: metastore.tell("get_partition_names", "sales", name, -1) for name in tables if name in KNOWN_AS}
    return {table: sorted(name.partition("=")[2] for name in listed) for table, listed in names.items()}


def _explained(daemon: DaemonProcess) -> Any:
    return daemon.get(f"/v1/tables/{TABLE}/explain") or {"services": {}}


def _blocked(daemon: DaemonProcess, why: str) -> Any:
    decision = (_explained(daemon)["services"].get("catalog_sync") or {}).get("decision") or {}
    return decision if why in (decision.get("reason") or "") else None


def _succeeded(daemon: DaemonProcess, service: str) -> bool:
    return any(run["state"] == "SUCCEEDED" for run in daemon.runs(service))


def _figures(daemon: DaemonProcess) -> list[int]:
    """Return how many partitions each run that succeeded took from the list."""
    done = [run for run in daemon.runs("catalog_sync") if run["state"] == "SUCCEEDED"]
    return [run["figures"]["partitions_dropped"] for run in done]
