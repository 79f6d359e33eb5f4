"""Paimon tables of catalogs: a warehouse, rows of a database, and a real Hive metastore (2.3.9).

The writers and Lakewarden open the table through the same catalog, and commit under its lock.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, NothingToDo, Succeeded
from lakewarden.executors.worker import java
from lakewarden.planners.model.instant import RunId, Service, Step
from tests.integration.iceberg.deletions import suffering
from tests.integration.paimon.test_clean import AT_ONCE as TOLD
from tests.integration.paimon.test_clean import NEWEST as CLEAN_AT_ONCE
from tests.integration.paimon.test_orphans import AT_ONCE as ORPHANS_AT_ONCE
from tests.integration.paimon.test_orphans import age, lose
from tests.support.catalogs.metastore import RealMetastore, make_lock_tables
from tests.support.catalogs.sqlite_driver import sqlite_driver
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.object_stores.s3_server import BUCKET
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.object_stores.s3_server import S3Server
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

_DATABASES = itertools.count()
Made = Callable[..., PaimonOrders]


@pytest.fixture
def made(spark: Any, metastore: RealMetastore, tmp_path: Path) -> Made:
    """Return a function that makes a table with six sorted runs in each of its buckets, in a catalog of this type."""

    def make(kind: str, **settings: Any) -> PaimonOrders:
        warehouse = tmp_path / "warehouse"
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
            database.execute("PRAGMA journal_mode=WAL")  # else open queries block commits
        known: Mapping[str, Mapping[str, Any]] = {
            "filesystem": {"warehouse": str(warehouse)},
            "jdbc": {"uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": str(warehouse)},
            "hive": {"uri": metastore.uri, "warehouse": str(warehouse)},
        }
        table = PaimonOrders(
            warehouse=warehouse,
            spark=spark,
            known_by={"type": kind, **known[kind], **settings},
            database=f"shop_{next(_DATABASES)}",
        )
        for number in range(6):
            table.write(rows(number, f"v{number}"))
        return table

    return make


@pytest.fixture(scope="module")
def metastore_on_s3(
    spark: Any, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealMetastore]:
    """Start a Hive metastore that grants locks and reaches the S3 server."""
    s3_server.start()
    folder = tmp_path_factory.mktemp("metastore-on-s3")
    make_lock_tables(spark._jvm, folder)
    started = RealMetastore.on_s3(folder, s3_server)
    try:
        started.wait()
        yield started
    finally:
        started.stop()


def stood(driver: Driver, run: RunId, stands: Path) -> None:
    """Return when a run stands at its point. Fails with its outcome if it has ended before."""
    try:
        eventually(stands.exists)
    except AssertionError:
        pytest.fail(f"the run did not come to its point: {driver.next(run, Ended).outcome}")


@pytest.mark.parametrize("kind", ["hive", "jdbc"])
def test_a_commit_and_those_of_writers_take_turns_under_the_lock_of_the_catalog(
    driver: Driver, made: Made, worker_faults: Path, kind: str
) -> None:
    """A writer that begins between the last look and the commit waits, and then commits. Neither replaces the other,
    although the disk has no rename that would keep them apart.
    """
    table = made(kind, lock=True)
    with suffering(worker_faults, "proposed", "hold", service="compaction") as stands:
        run = driver.submit(table, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        stood(driver, run, stands)
        writer = threading.Thread(target=table.write, args=(rows(100, "beside"),))
        writer.start()
        writer.join(2)
        assert writer.is_alive(), "the writer committed although the lock was held"
        assert len(table.snapshots()) == 6
    outcome = driver.next(run, Ended).outcome
    writer.join(60)
    assert isinstance(outcome, Succeeded), outcome
    assert [(one["id"], one["commitKind"]) for one in table.snapshots()[6:]] == [(7, "COMPACT"), (8, "APPEND")]
    assert table.read() == sorted(table.expected)


def test_a_lock_that_another_program_holds_is_waited_for(driver: Driver, made: Made, tmp_path: Path) -> None:
    """Nothing is committed while the row of the lock is there."""
    table = made("jdbc", lock=True)
    lock = f"jdbc.{table.database}.{table.name}"
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db", timeout=20)) as database:
        held = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, 480)"
        database.execute(held, (lock,))
        database.commit()
        run = driver.submit(table, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        with pytest.raises(AssertionError, match="did not come true"):
            eventually(lambda: len(table.snapshots()) > 6, within=3)
        database.execute("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", (lock,))
        database.commit()
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert table.read() == sorted(table.expected)


_MOMENTS = {
    Service.COMPACTION: ("proposed", {}),
    Service.CLEAN: ("expiring", CLEAN_AT_ONCE),
    Service.ORPHANS: ("deleting", ORPHANS_AT_ONCE),
    Service.ARCHIVE: ("proposed", {}),
}


def exchanged(table: PaimonOrders) -> PaimonOrders:
    """Rename a table, and make another one under its name, in its folder. Return the renamed one."""
    renamed = copy.copy(table)
    renamed.rename(f"{table.name}_of_before")
    table.expected = []
    table.create()
    for number in range(2):
        table.write(rows(500 + number, "new"))
    return renamed


@pytest.mark.faults
@pytest.mark.parametrize("service", list(_MOMENTS))
@pytest.mark.parametrize("kind", ["filesystem", "jdbc", "hive"])
def test_a_name_that_changes_hands_in_the_moment_of_our_commit_leaves_both_tables_whole(
    driver: Driver, made: Made, worker_faults: Path, kind: str, service: Service
) -> None:
    """The table is renamed, which moves its folder. Another one is created under its name, in the old folder."""
    table = made(kind, **({} if kind == "filesystem" else {"lock": False}))
    table.told = TOLD
    lose(table)
    age(table)
    point, options = _MOMENTS[service]
    with suffering(worker_faults, point, "hold", service=service.value) as stands:
        run = driver.submit(table, service, **options)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        stood(driver, run, stands)
        renamed = exchanged(table)
        before = table.files()
    outcome = driver.next(run, Ended).outcome

    assert table.read() == sorted(table.expected), outcome
    assert renamed.read() == sorted(renamed.expected), outcome
    assert [one["id"] for one in table.snapshots()] == [1, 2], outcome
    assert before <= table.files(), outcome
    assert not isinstance(outcome, Succeeded) or service is Service.ORPHANS
    table.write(rows(900, "later"))
    renamed.write(rows(901, "later"))
    for one in (table, renamed):
        assert isinstance(driver.carry_out(one, Service.COMPACTION), Succeeded)
        assert one.read() == sorted(one.expected)


@pytest.mark.parametrize("kind", ["filesystem", "jdbc", "hive"])
def test_a_table_of_a_catalog_is_served_under_its_name_and_gone_when_it_is_renamed(
    driver: Driver, made: Made, kind: str
) -> None:
    """Compaction, clean, archive and orphans find its folder by its name. A run under its old name changes nothing."""
    table = made(kind)
    table.told = TOLD
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(rows(7, "after"))
    assert isinstance(driver.carry_out(table, Service.ARCHIVE), Succeeded)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **CLEAN_AT_ONCE), Succeeded)
    lost = lose(table)
    age(table)
    assert isinstance(driver.carry_out(table, Service.ORPHANS, **ORPHANS_AT_ONCE), Succeeded)
    assert lost not in table.files()
    assert table.read() == sorted(table.expected)

    under_its_old_name = copy.copy(table)
    table.rename("elsewhere")
    files = table.files()
    outcome = driver.carry_out(under_its_old_name, Service.COMPACTION)
    assert isinstance(outcome, Failed)
    assert "no table" in outcome.reason or "no Paimon table" in outcome.reason
    assert table.files() == files
    assert table.read() == sorted(table.expected)


def test_a_snapshot_on_s3_is_taken_back_if_the_table_was_rolled_back_after_the_last_look(
    driver: Driver, made: Made, s3_server: S3Server, worker_faults: Path
) -> None:
    """A rollback takes no lock. The row that was written since is there, and those of the rollback are not."""
    s3_server.start()
    table = made("jdbc", warehouse=f"s3://{BUCKET}/{uuid4().hex}")
    before = table.read()
    table.write([(77, "undone", "a")])
    with suffering(worker_faults, "proposed", "hold", service="compaction") as stands:
        run = driver.submit(table, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        stood(driver, run, stands)
        table.roll_back(6)  # it has six writes, and the row that is undone
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Failed)
    assert "the snapshot was deleted again" in outcome.reason
    assert table.read() == before
    outcome = driver.carry_out(table, Service.COMPACTION)
    assert isinstance(outcome, Succeeded), outcome
    assert table.read() == before


@pytest.mark.parametrize("kind", ["jdbc", "hive"])
def test_a_table_on_s3_is_served_under_the_lock_that_paimon_takes_there_by_default(
    driver: Driver, made: Made, s3_server: S3Server, request: pytest.FixtureRequest, kind: str
) -> None:
    """The store has no rename. Compaction, archive, clean, orphans and marks: each row is there, and what nothing needs
    is gone.
    """
    s3_server.start()
    warehouse = f"s3://{BUCKET}/{uuid4().hex}"
    known = {"uri": request.getfixturevalue("metastore_on_s3").uri} if kind == "hive" else {}
    table, there = made(kind, warehouse=warehouse, **known), s3_server.files()
    table.told = TOLD
    place = f"{warehouse}/{table.database}.db/{table.name}"

    def paths() -> set[str]:
        start = place.removeprefix("s3://")
        found = {one.removeprefix(f"{start}/") for one in there.find(start)}
        return {one for one in found if not one.startswith("_lakewarden/") and one.rpartition("/")[2]}

    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    table.write(rows(3, "between"))
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["snapshot"] == 8
    assert table.read() == sorted(table.expected)
    assert isinstance(driver.carry_out(table, Service.ARCHIVE), Succeeded)

    outcome = driver.carry_out(table, Service.CLEAN, **CLEAN_AT_ONCE)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["snapshots_expired"] == 8
    assert {one for one in paths() if one.startswith("snapshot/snapshot-")} == {"snapshot/snapshot-9"}
    data = {one.rpartition("/")[2] for one in paths() if "/bucket-" in one}
    assert data == set(table.live_files())
    assert table.read() == sorted(table.expected)

    outcome = driver.carry_out(table, Service.PARTITION_COMMIT, idle_time="0s")
    assert isinstance(outcome, Succeeded), outcome
    assert {"dt=a/_SUCCESS", "dt=b/_SUCCESS"} <= paths()
    young = f"dt=a/bucket-0/data-{uuid4()}-0.parquet"
    there.pipe_file(f"{place}/{young}", b"of a writer that goes on")
    outcome = driver.carry_out(table, Service.ORPHANS, **ORPHANS_AT_ONCE)
    assert isinstance(outcome, NothingToDo), outcome
    assert young in paths()
    for number in range(2):
        table.write(rows(number * 10, "after"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert table.read() == sorted(table.expected)


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["jdbc", "hive"])
def test_a_started_daemon_serves_a_table_by_its_name_beside_a_writer_through_the_same_catalog(
    made: Made, daemon_of: Callable[..., DaemonProcess], kind: str
) -> None:
    """Compaction, clean and orphans run. No commit of the writer fails, and each read between finds every row."""
    table = made(kind, lock=True)
    table.told = TOLD
    clean = {"trigger": {"num_commits": 3}, "options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 3}}
    orphans = {"trigger": {"num_commits": 1}, "options": {"unknown_for": "0s", "older_than": "1d"}}
    services = {"compaction": {"trigger": {"num_commits": 3}}, "clean": clean, "orphans": orphans}
    lost = lose(table)
    age(table)
    conf = {"spark.driver.extraJavaOptions": java.LIGHT, "spark.driver.extraClassPath": str(sqlite_driver())}
    daemon = daemon_of(table, services, formats=["paimon"], conf=conf)
    daemon.start()
    seen, numbers = [], iter(range(10_000))

    def served() -> bool:
        number = next(numbers)
        table.write(rows(number % 50, f"live{number}", count=3))
        if number % 5 == 0:
            seen.append(table.read() == sorted(table.expected))
        done = [{run["state"] for run in daemon.runs(service)} for service in services]
        return all("SUCCEEDED" in one for one in done) and lost not in table.files()

    daemon.until(served)
    assert all(seen)
    assert table.read() == sorted(table.expected)
    assert [run["outcome"] for service in services for run in daemon.runs(service) if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0
