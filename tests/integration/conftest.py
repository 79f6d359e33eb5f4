"""The shared, warm fixtures of all tests on real Spark and Hudi: ZooKeeper, a writer's session, a pool with one
worker.
"""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakewarden.demo.daemon import ZooKeeper
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import bundles, java
from lakewarden.planners.storage.settings import S3Store
from tests.support.catalogs.databases import drivers
from tests.support.catalogs.metastore import RealMetastore, make_lock_tables
from tests.support.daemon.daemon_process import Configured, DaemonProcess
from tests.support.doubles import fault_points
from tests.support.hudi.orders import Orders
from tests.support.object_stores.s3_server import S3Server
from tests.support.pool.driver import Driver, SharedPool
from tests.support.waiting import eventually

_FORMATS = ("hudi", "iceberg", "paimon")
"""The bundles of all formats are in one session, as in a pool with tables of all."""

_LIGHT_JVM = {
    "spark.driver.extraJavaOptions": java.LIGHT,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


def _profile(**other: Any) -> SparkProfile:
    """Return a light profile for the tables of every format, and for catalogs in databases."""
    conf = {**_LIGHT_JVM, "spark.driver.extraClassPath": drivers()}
    return SparkProfile(memory="768m", master="local[2]", formats=_FORMATS, conf=conf, **other)


def _in_a_thread(make: Callable[[], Any]) -> Any:
    """Call a function outside the main thread, where pyspark would take Ctrl-C away from pytest."""
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Start the lock service of all tables."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    eventually(server.ready)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_store(s3_server: S3Server) -> S3Store:
    """Let every session reach the S3 server, which starts when a test needs it."""
    bundles.fetch(_FORMATS, stores=["s3"])
    return s3_server.store()


@pytest.fixture(scope="session")
def writers_session(s3_store: S3Store) -> Iterator[Any]:
    """Start the writers' session, in another JVM than the worker's."""
    from lakewarden.executors.worker.session import Session  # noqa: PLC0415 - imports pyspark

    session = _in_a_thread(lambda: Session(_profile(), [s3_store]))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(writers_session: Any) -> Any:
    """Return the writers' SparkSession."""
    return writers_session._root


@pytest.fixture(scope="session")
def metastore(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMetastore]:
    """Start a Hive metastore that grants locks."""
    folder = tmp_path_factory.mktemp("metastore")
    make_lock_tables(spark._jvm, folder)
    started = RealMetastore(folder)
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def worker_faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the file with the faults of the shared pool's workers. There are none while the file is missing."""
    file = tmp_path_factory.mktemp("faults") / "faults.json"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(fault_points.VARIABLE, str(file))
        yield file


@pytest.fixture(scope="session")
def warm_driver(tmp_path_factory: pytest.TempPathFactory, s3_store: S3Store, worker_faults: Path) -> Iterator[Driver]:
    """Start the one pool of the whole session. Tests use `driver`."""
    lasting = {"recycle_after": 100_000, "recycle_growth": "8GiB"}  # a worker that is replaced takes no second run
    pool = SharedPool(
        _profile(slots=3, heartbeat="200ms", **lasting), directory=tmp_path_factory.mktemp("pool"), storage=[s3_store]
    )
    yield Driver(pool)
    pool.end()


@pytest.fixture
def driver(warm_driver: Driver) -> Iterator[Driver]:
    """Return the shared pool, ready and idle."""
    warm_driver.until_ready()
    yield warm_driver
    warm_driver.abandon()


@pytest.fixture(scope="session")
def written_orders(
    spark: Any, zookeeper: ZooKeeper, warm_driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> Orders:
    """Write the table that every test gets a copy of. The worker starts meanwhile."""
    lock = {"provider": "zookeeper", "url": zookeeper.address, "base_path": "/hudi", "lock_key": "written-orders"}
    table = Orders(path=tmp_path_factory.mktemp("written") / "orders", lock=lock, spark=spark)
    for _ in range(3):
        table.write()
    return table


@pytest.fixture
def orders(written_orders: Orders, tmp_path: Path) -> Orders:
    """Copy the table that was written three times: base files and two rounds of log files."""
    shutil.copytree(written_orders.path, tmp_path / "orders")
    return dataclasses.replace(
        written_orders,
        path=tmp_path / "orders",
        lock={**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")},
        expected=dict(written_orders.expected),
    )


@pytest.fixture
def daemon_of(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Make daemons for a table, its policies and a Spark profile. Processes that they leave behind are killed."""
    made: list[DaemonProcess] = []

    def make(table: Configured, services: Mapping[str, Any], **spark: Any) -> DaemonProcess:
        made.append(DaemonProcess(tmp_path / "daemon", table, services, **spark))
        return made[-1]

    yield make
    for daemon in made:
        daemon.end()
