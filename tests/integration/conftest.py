"""One warm arrangement for all tests on real Spark and Hudi: ZooKeeper, a writer's session, a pool with one worker."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hudi import HudiTable

from lakewarden.demo.zookeeper import ZooKeeper
from lakewarden.executors import faultpoints
from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Granted,
    Lost,
    Outcome,
    Plan,
    PoolEvent,
    Refused,
    RoomChanged,
    Started,
    Step,
)
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import bundles
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.indexes.indexes import read_indexes, switches
from lakewarden.planners.formats.hudi.metadata.table_properties import read_table_properties
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from lakewarden.planners.storage.settings import S3Store, StoreSettings
from tests.support.s3_server import S3Server
from tests.support.sqlite_driver import sqlite_driver

_Event = TypeVar("_Event", Asked, Ended, Lost, RoomChanged, Started)

_FORMATS = ("hudi", "iceberg")
"""Both in one session, as in a pool that serves tables of both."""

_LIGHT_JVM = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


def eventually(what: Callable[[], bool], *, within: float = 30) -> None:
    """Return when `what` is true. Fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@dataclasses.dataclass
class Orders:
    """A merge-on-read table with 30 orders in three partitions, its writer, and the writer's own record."""

    path: Path
    lock: Mapping[str, Any]
    spark: Any
    expected: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: int = 0
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def location(self) -> str:
        """The table's canonical location."""
        return str(self.path)

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table."""
        return {"format": "hudi", "location": self.location, "table_options": {"lock": dict(self.lock)}}

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in a configuration says of the table itself."""
        options = {"lock": dict(self.lock), "lock_proof": "trusted"}  # most of them were just written
        return {"format": "hudi", "path": self.location, "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """Return none: the table is found by its path."""
        return {}

    @property
    def address(self) -> str:
        """The table as its writer spells it."""
        return f"file://{self.path}"

    def write(self, *, keys: int = 30) -> None:
        """Upsert the first `keys` orders with a value no earlier commit had."""
        self.versions += 1
        rows = [(f"o{n}", f"v{self.versions}-{n}", self.versions, f"p{n % 3}") for n in range(keys)]
        self._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def _save(self, rows: Sequence[tuple[str, str, int, str]]) -> None:
        frame = self.spark.createDataFrame(rows, "order_id string, note string, ts long, region string")
        frame.coalesce(1).write.format("hudi").options(**self._options()).mode("append").save(self.address)

    def found(self) -> dict[str, str]:
        """Return what hudi-rs finds: a reader that shares no code with what wrote or serviced the table."""
        rows: dict[str, str] = {}
        for batch in HudiTable(str(self.path)).read():
            for key, note in zip(*(batch.column(name).to_pylist() for name in ("order_id", "note")), strict=True):
                assert key not in rows, f"{key} was found twice"
                rows[key] = note
        return rows

    def timeline(self, pattern: str) -> list[str]:
        """Return the names of the timeline's files that match."""
        return sorted(path.name for path in (self.path / ".hoodie" / "timeline").glob(pattern))

    def view(self) -> TableView:
        """Return the table as the daemon sees it."""
        options = HudiTableOptions.model_validate(dict(self.assigned["table_options"]))
        table = Table(id=TableId("orders"), format="hudi", location=self.location, policies={}, options=options)
        return HUDI.observe(table, storage_for(self.location), None, now=datetime.now(UTC)).view

    def plans_of(self, service: Service) -> set[str]:
        """Return the times of the plans of a service that wait to be carried out."""
        return {instant.time for instant in self.view().timeline.pending(service)}

    def indexes(self) -> Mapping[str, str]:
        """Return the switches of the indexes that the table has now."""
        storage = storage_for(self.location)
        return switches(read_indexes(self.location, read_table_properties(self.location, storage), storage))

    def data_files(self) -> set[str]:
        """Return the names of all base and log files."""
        return {p.name for p in self.path.glob("p*/*") if ".hoodie_partition" not in p.name and p.suffix != ".crc"}

    def _options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "order_id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": self.lock["url"],
            "hoodie.write.lock.zookeeper.base_path": self.lock["base_path"],
            "hoodie.write.lock.zookeeper.lock_key": self.lock["lock_key"],
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            "hoodie.upsert.shuffle.parallelism": "2",
            **self.conf,
        }


class Served(Protocol):
    """A table of any format."""

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table: its format, its location, its options."""
        ...


class SharedPool(WorkerPool):
    """A warm pool for one user after another: who starts it last is told, and nobody's close ends it."""

    def __init__(self, profile: SparkProfile, *, directory: Path, storage: Sequence[StoreSettings]) -> None:
        super().__init__(profile, directory=directory, storage=storage)
        self._user: Callable[[PoolEvent], None] | None = None

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        begun, self._user = self._user is not None, tell
        if begun:
            tell(RoomChanged(reason="the pool has changed hands"))
        else:
            super().start(self._tell_the_user)

    def extend(self, until: float) -> None:
        """Do nothing: the workers outlive the daemon that has them for a while, and its tenure."""

    def close(self) -> None:
        """Do nothing: the session ends it."""

    def end(self) -> None:
        """Kill the workers."""
        super().close()

    def _tell_the_user(self, event: PoolEvent) -> None:
        assert self._user is not None
        self._user(event)


class Driver:
    """Submits runs to a pool and answers their questions, as the daemon would."""

    def __init__(self, pool: SharedPool) -> None:
        self.pool = pool
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self._told: list[PoolEvent] = []
        self._names = iter(range(1, 10_000))
        pool.start(self._events.put)

    @contextlib.contextmanager
    def pool_lent(self) -> Iterator[SharedPool]:
        """Lend the pool to a daemon, whose runs have ended when it is given back."""
        yield self.pool
        self.pool.start(self._events.put)

    def until_ready(self) -> None:
        """Wait until every slot is free."""
        eventually(lambda: self.pool.room().slots > 0 and self.pool.room().free == self.pool.room().slots, within=120)

    def submit(
        self,
        table: Served,
        service: Service,
        *,
        instant: str | None = None,
        largest_share: float | None = None,
        most_files: int | None = None,
        predecessor_dead: bool = False,
        **options: Any,
    ) -> RunId:
        run = RunId(f"run-{next(self._names)}")
        self.pool.submit(
            Assignment(
                run=run,
                epoch=1,
                table=TableId("sales.orders"),
                service=service,
                instant=instant,
                service_options=options,
                largest_share=largest_share,
                most_files=most_files,
                predecessor_dead=predecessor_dead,
                **table.assigned,
            )
        )
        return run

    def next(self, run: RunId, kind: type[_Event]) -> _Event:
        """Return the run's next event of this kind."""
        while True:
            for event in self._told:
                if isinstance(event, kind) and getattr(event, "run", None) == run:
                    self._told.remove(event)
                    return event
            self._hear()

    def question_or_end(self, run: RunId) -> Asked | Ended:
        """Return what the run asks next, or how it ended."""
        while True:
            for event in self._told:
                if isinstance(event, Asked | Ended) and event.run == run:
                    self._told.remove(event)
                    return event
            self._hear()

    def _hear(self) -> None:
        self._told.append(self._events.get(timeout=120))

    def climb(self, run: RunId, *, to: Step) -> Plan | None:
        """Grant every step before `to`, and return the plan as the question for `to` tells it."""
        while True:
            asked = self.question_or_end(run)
            assert isinstance(asked, Asked), f"it ended before it asked for {to}: {asked}"
            if asked.step is to:
                return asked.plan
            self.pool.answer(run, asked.step, Granted())

    def leave_planned(self, table: Served, service: Service, **options: Any) -> Plan:
        """Let a run plan, refuse it everything else, and return the plan it leaves behind."""
        run = self.submit(table, service, **options)
        plan = self.climb(run, to=Step.EXECUTE)
        assert plan is not None
        self.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
        self.next(run, Ended)
        return plan

    def finish(self, run: RunId) -> Outcome:
        """Grant whatever the run asks, and return how it ended."""
        while isinstance(event := self.question_or_end(run), Asked):
            self.pool.answer(run, event.step, Granted())
        return event.outcome

    def carry_out(self, table: Served, service: Service, *, instant: str | None = None, **options: Any) -> Outcome:
        """Carry out a run with every permit granted."""
        return self.finish(self.submit(table, service, instant=instant, **options))


def _profile(**other: Any) -> SparkProfile:
    """Return a light profile for the tables of every format, and for a catalog in SQLite."""
    conf = {**_LIGHT_JVM, "spark.driver.extraClassPath": str(sqlite_driver())}
    return SparkProfile(memory="768m", master="local[2]", formats=_FORMATS, conf=conf, **other)


def _in_a_thread(make: Callable[[], Any]) -> Any:
    """Make something outside the main thread, where pyspark would take Ctrl-C away from pytest."""
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
    """Start the writers' session, in a JVM apart from the worker's."""
    from lakewarden.executors.worker.session import Session  # noqa: PLC0415 - imports pyspark

    session = _in_a_thread(lambda: Session(_profile(), [s3_store]))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(writers_session: Any) -> Any:
    """Return the writers' SparkSession."""
    return writers_session._root


@pytest.fixture(scope="session")
def worker_faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Name the file that tells the shared pool's workers what to suffer: nothing, as long as there is none."""
    file = tmp_path_factory.mktemp("faults") / "faults.json"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(faultpoints.VARIABLE, str(file))
        yield file


@pytest.fixture(scope="session")
def warm_driver(tmp_path_factory: pytest.TempPathFactory, s3_store: S3Store, worker_faults: Path) -> Iterator[Driver]:
    """Start the one pool of the whole session. Tests use `driver`."""
    pool = SharedPool(
        _profile(slots=3, heartbeat="200ms"), directory=tmp_path_factory.mktemp("pool"), storage=[s3_store]
    )
    yield Driver(pool)
    pool.end()


@pytest.fixture
def driver(warm_driver: Driver) -> Driver:
    """Lend the shared pool, ready and idle."""
    warm_driver.until_ready()
    return warm_driver


@pytest.fixture(scope="session")
def written_orders(
    spark: Any, zookeeper: ZooKeeper, warm_driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> Orders:
    """Write the table that every test gets a copy of, while the worker starts."""
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
