"""Hudi's clustering on real Spark: what it rewrites, and how it yields to writers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import psutil
import pyarrow.parquet
import pytest
from hudi import HudiTable

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    NothingToDo,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.executors.programs.hudi.clustering import settings
from lakewarden.planners.formats.hudi.options.service_options import ClusteringOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.errors import YieldError
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}
ONE_FILE_FOR_EACH_BATCH = {"hoodie.parquet.small.file.limit": "0"}
COPY_ON_WRITE = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.metadata.enable": "false"}
THE_WRITER_GIVES_WAY = {
    "hoodie.write.lock.conflict.resolution.strategy": (
        "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    )
}


class Scattered(Orders):
    """A table with a small file in each partition for every batch of new orders."""

    def put(self, regions: Mapping[str, str]) -> None:
        """Upsert these orders, each into its region, with notes that fall while the orders' numbers rise."""
        self.versions += 1
        rows = [(key, f"{99 - int(key[1:])}-v{self.versions}", self.versions, at) for key, at in regions.items()]
        self._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def add_batches(self, *partitions: str, batches: int = 3) -> None:
        """Insert batches of two new orders in each of these partitions."""
        size = 2 * len(partitions)
        for first in range(0, batches * size, size):
            self.put({f"o{n}": partitions[n % len(partitions)] for n in range(first, first + size)})

    def base_files(self, partition: str) -> dict[str, Path]:
        """Return the base files in a partition's folder, by name."""
        return {file.name: file for file in (self.path / partition).glob("*.parquet")}

    def properties(self) -> tuple[bytes, int]:
        """Return what `hoodie.properties` holds, and when it was written."""
        file = self.path / ".hoodie" / "hoodie.properties"
        return file.read_bytes(), file.stat().st_mtime_ns

    def client(self) -> HudiClient:
        """Return another clustering client, in the writer's own JVM."""
        options = HudiTableOptions.model_validate({"lock": dict(self.lock)})
        service = settings(ClusteringOptions())
        return HudiClient(self.spark, str(self.path), options, service, indexes=self.indexes())

    def writing_with(self, conf: Mapping[str, str]) -> Scattered:
        """Return the same table with other options of its writer."""
        return dataclasses.replace(self, conf={**self.conf, **conf})


class Dated(Scattered):
    """Each order has a day and a time of long ago, as placeholders are."""

    def _save(self, rows: Sequence[tuple[str, str, int, str]]) -> None:
        frame = self.spark.createDataFrame(rows, "order_id string, note string, ts long, region string")
        frame = frame.selectExpr("*", "DATE'0001-01-01' AS day", "TIMESTAMP'1582-10-10 01:02:03Z' AS at")
        frame.coalesce(1).write.format("hudi").options(**self._options()).mode("append").save(self.address)

    def dates(self) -> set[tuple[Any, Any]]:
        """Return what hudi-rs finds."""
        read = [pyarrow.record_batch(batch) for batch in HudiTable(str(self.path)).read()]
        return {(row["day"], row["at"]) for batch in read for row in batch.to_pylist()}


@pytest.fixture(scope="session")
def written(written_orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scattered]:
    """Return a maker of a table of each type, one without metadata table, with three small files in each of three
    partitions. It writes each once.
    """

    @functools.cache
    def write(kind: str) -> Scattered:
        path = tmp_path_factory.mktemp("scattered") / "orders"
        lock = {**written_orders.lock, "lock_key": f"scattered-{kind}"}
        conf = {**ONE_FILE_FOR_EACH_BATCH, **(COPY_ON_WRITE if kind == "COPY_ON_WRITE" else {})}
        table = Scattered(path=path, lock=lock, spark=written_orders.spark, conf=conf)
        table.add_batches("p0", "p1", "p2")
        table.put({"o0": "p0", "o1": "p1"})
        return table

    return write


@pytest.fixture
def table_of(written: Callable[[str], Scattered], tmp_path: Path) -> Callable[[str], Scattered]:
    """Return a maker of copies."""

    def copy(kind: str) -> Scattered:
        path = tmp_path / "orders"
        source = written(kind)
        shutil.copytree(source.path, path)
        lock = {**source.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
        return dataclasses.replace(source, path=path, lock=lock, expected=dict(source.expected))

    return copy


@pytest.fixture
def table(table_of: Callable[[str], Scattered]) -> Scattered:
    """Copy the merge-on-read table."""
    return table_of("MERGE_ON_READ")


@contextlib.contextmanager
def stopped_in_flight(table: Scattered, write: Callable[[], None]) -> Iterator[None]:
    """Stop a writer once its write says which partitions it touches, and let it end well after the bracket."""
    raised: list[Exception] = []

    def attempt() -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - told in the main thread
            raised.append(error)

    jvm = psutil.Process(int(table.spark._jvm.java.lang.ProcessHandle.current().pid()))
    before = table.timeline("*.deltacommit.inflight")
    writer = threading.Thread(target=attempt)
    writer.start()
    while table.timeline("*.deltacommit.inflight") == before:
        assert writer.is_alive()
        time.sleep(0.001)
    jvm.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        jvm.send_signal(signal.SIGCONT)
        writer.join()
    assert raised == []


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("COPY_ON_WRITE", "linear"),
        pytest.param("MERGE_ON_READ", "z-order", marks=pytest.mark.core),
        ("COPY_ON_WRITE", "hilbert"),
    ],
)
def test_small_files_become_one_in_the_order_asked_for(
    driver: Driver, table_of: Callable[[str], Scattered], kind: str, layout: str
) -> None:
    """The partitions that match are rewritten, signed and ordered, once. Nothing else of the table changes."""
    table = table_of(kind)
    properties, others = table.properties(), table.base_files("p2")
    options = {"sort_columns": ["note", "order_id"], "layout": layout, "partition_regex": "p[01]", **AT_ONCE}
    run = driver.submit(table, Service.CLUSTERING, **options)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.file_groups == 6
    [requested] = (table.path / ".hoodie" / "timeline").glob(f"{plan.instant}.clustering.requested")
    assert _record(requested)["extraMetadata"]["lakewarden.run"] == run
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    for partition in ("p0", "p1"):
        [clustered] = (file for name, file in table.base_files(partition).items() if f"_{plan.instant}." in name)
        notes = pyarrow.parquet.read_table(clustered, columns=["note"]).column("note").to_pylist()
        assert len(notes) == 6
        assert layout != "linear" or notes == sorted(notes)
    assert table.base_files("p2") == others
    assert table.found() == table.expected
    assert table.properties() == properties
    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **options), NothingToDo)


def test_dates_of_long_ago_stay_as_they_are(driver: Driver, written_orders: Orders, tmp_path: Path) -> None:
    """Writers take them, and by its defaults Spark reads none of them in a file of Hudi. So every compaction failed."""
    lock = {**written_orders.lock, "lock_key": "dated"}
    table = Dated(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=ONE_FILE_FOR_EACH_BATCH)
    table.add_batches("p0", batches=2)
    table.put({"o0": "p0"})
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **AT_ONCE), Succeeded)
    assert len(table.base_files("p0")) == 4
    assert table.found() == table.expected
    assert table.dates() == {(date(1, 1, 1), datetime(1582, 10, 10, 1, 2, 3, tzinfo=UTC))}


def test_what_was_just_written_is_left_alone(driver: Driver, table: Scattered) -> None:
    """Nothing is planned, and the run says when the first partition becomes cold."""
    outcome = driver.carry_out(table, Service.CLUSTERING, untouched_for="1h")

    assert isinstance(outcome, NothingToDo)
    assert outcome.again is not None
    assert timedelta(minutes=30) < outcome.again < timedelta(hours=1)
    assert table.timeline("*.clustering.*") == []


def test_a_partition_that_is_being_written_to_is_not_taken(driver: Driver, table: Scattered) -> None:
    """Beside a write in flight the other partitions are clustered, and both commit."""
    with stopped_in_flight(table, lambda: table.put({"o0": "p0"})):
        outcome = driver.carry_out(table, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["file_groups"] == 6  # of nine
    assert table.found() == table.expected


@pytest.mark.core
def test_a_write_that_came_after_the_plan_makes_it_step_back(driver: Driver, table: Scattered) -> None:
    """The write is seen before anything is rewritten. The plan is withdrawn at once, and the writer commits."""
    table = table.writing_with(THE_WRITER_GIVES_WAY)  # any other is rejected while the plan is pending
    run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    with stopped_in_flight(table, lambda: table.put({"o0": "p0"})):
        driver.pool.answer(run, Step.COMMIT, Granted())
        outcome = driver.next(run, Ended).outcome
        assert table.plans_of(Service.CLUSTERING) == set()

    assert isinstance(outcome, Yielded)
    assert "partition p0" in outcome.reason
    assert table.found() == table.expected


def test_of_a_clustering_and_a_write_that_overlap_the_clustering_loses(table: Scattered) -> None:
    """A write that was not seen in time is not lost: Hudi refuses our commit, and what we wrote is rolled back."""
    client = table.client()
    client.choose_partitions(["p0"])
    instant = client.schedule("CLUSTER", extra_metadata={})
    assert instant is not None
    table.writing_with(THE_WRITER_GIVES_WAY).put({"o0": "p0"})
    table.expected["o0"] = f"99-v{table.versions + 1}"

    with pytest.raises(YieldError), translated(Step.COMMIT):
        client.java.cluster(instant, True)
    with client.locked():
        client.undo_rewrite(instant)
        client.remove_plan(instant)
    client.close()

    assert table.timeline("*.clustering.*") == []
    assert not any(f"_{instant}." in name for name in table.base_files("p0"))
    assert table.found() == table.expected


def test_a_plan_that_may_not_be_executed_hinders_no_writer(driver: Driver, table: Scattered) -> None:
    """While the plan is pending an update of its files fails. After the refusal the plan is gone, and the same update
    succeeds.
    """
    run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    with pytest.raises(Exception, match="HoodieClusteringUpdateException"):
        table.put({"o0": "p0"})
    table.versions -= 1

    driver.pool.answer(run, Step.COMMIT, Refused(reason="a writer is busy"))

    assert driver.next(run, Ended).outcome == Yielded(reason="a writer is busy")
    assert table.plans_of(Service.CLUSTERING) == set()
    table.put({"o0": "p0"})
    assert table.found() == table.expected


def test_a_foreign_clustering_plan_is_executed_only_if_it_was_not_begun(driver: Driver, table: Scattered) -> None:
    """Two executors of one clustering destroy rows, and no heartbeat shows whether there is one."""
    client = table.client()
    instant = client.schedule("CLUSTER", extra_metadata={})
    client.close()
    inflight = table.path / ".hoodie" / "timeline" / f"{instant}.clustering.inflight"
    inflight.touch()

    outcome = driver.carry_out(table, Service.CLUSTERING, instant=instant, **AT_ONCE)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert inflight.exists()
    assert table.found() == table.expected

    inflight.unlink()
    assert isinstance(driver.carry_out(table, Service.CLUSTERING, instant=instant, **AT_ONCE), Succeeded)
    assert table.found() == table.expected


def test_a_clustering_whose_jvm_was_killed_is_finished_by_another_run(
    driver: Driver, table: Scattered, worker_faults: Path
) -> None:
    """Kill -9 in the joined step: the run is lost, the next one rolls back and rewrites, and every row is right."""
    with suffering(worker_faults, "written", "crash", service="clustering"):
        run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
        plan = driver.advance(run, to=Step.COMMIT)
        assert plan is not None
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert table.timeline(f"{plan.instant}.clustering.inflight")
    assert table.timeline(f"{plan.instant}_*.replacecommit") == []
    assert table.found() == table.expected
    driver.until_ready()

    assert isinstance(driver.carry_out(table, Service.CLUSTERING, instant=plan.instant, **AT_ONCE), Succeeded)
    assert len(table.timeline(f"{plan.instant}_*.replacecommit")) == 1
    assert table.found() == table.expected


def test_the_files_of_a_bucket_index_are_not_clustered(driver: Driver, table: Scattered, tmp_path: Path) -> None:
    """Their writer finds its rows by the names of its files."""
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    buckets = dataclasses.replace(table, path=tmp_path / "buckets", conf=index, expected={})
    buckets.add_batches("p0", batches=2)

    outcome = driver.carry_out(buckets, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "bucket index" in outcome.reason
    assert buckets.timeline("*.clustering.*") == []


def test_partitions_with_odd_names_are_taken_and_those_that_cannot_be_named_are_not(
    driver: Driver, table: Scattered, tmp_path: Path
) -> None:
    """Hudi takes names in a list with commas between them."""
    odd = dataclasses.replace(table, path=tmp_path / "odd", expected={})
    odd.add_batches("a b=ü", "c,d", batches=2)

    outcome = driver.carry_out(odd, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["file_groups"] == 2
    assert len(odd.base_files("a b=ü")) == 3
    assert len(odd.base_files("c,d")) == 2
    assert odd.found() == odd.expected


def test_a_table_without_partitions_is_clustered_whole(driver: Driver, table: Scattered, tmp_path: Path) -> None:
    """Its one partition has no name that Hudi could be given."""
    conf = {
        **ONE_FILE_FOR_EACH_BATCH,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    }
    whole = dataclasses.replace(table, path=tmp_path / "whole", conf=conf, expected={})
    whole.add_batches("nowhere", batches=2)

    outcome = driver.carry_out(whole, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures == {**outcome.figures, "file_groups": 2, "files_rewritten": 2, "files_added": 1}
    assert whole.found() == whole.expected


def _record(file: Path) -> dict[str, Any]:
    """Return the one record of an Avro file."""
    with file.open("rb") as content:
        reader: Any = fastavro.reader(content)
        [record] = reader
        return dict(record)
