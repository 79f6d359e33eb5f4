"""The lock of a JDBC catalog, in each database in which Paimon has one. The writers take it in another JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from lakewarden.executors.contract import Ended, Granted, Succeeded
from lakewarden.executors.worker import java
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering
from tests.support.catalogs.databases import CatalogDatabase, catalog_database, drivers
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.paimon.paimon_proofs import writing
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CatalogDatabase]:
    with catalog_database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def orders(spark: Any, database: CatalogDatabase, tmp_path: Path) -> PaimonOrders:
    """Write a table with six sorted runs, through a catalog in the database, under its lock."""
    table = PaimonOrders(
        warehouse=tmp_path / "warehouse",
        spark=spark,
        known_by={
            "type": "jdbc",
            "uri": database.uri,
            "warehouse": str(tmp_path / "warehouse"),
            "lock": True,
            **({} if database.user is None else {"user": database.user}),
        },
        database="shop",
    )
    for number in range(6):
        table.write(rows(number, f"v{number}"))
    return table


def locks(database: CatalogDatabase) -> list[str]:
    """Return the locks that are held, by a client of its own."""
    with database.engine.connect() as connection:
        return [str(row[0]) for row in connection.execute(sa.text("SELECT lock_id FROM paimon_distributed_locks"))]


def hold(database: CatalogDatabase, *, seconds: int, zone: str = "UTC") -> None:
    """Write the row of a lock as a program does that takes it for so long. Its session has this time zone."""
    held = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('jdbc.shop.orders', :seconds)"
    with database.engine.connect() as connection:
        if database.engine.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET TIME ZONE '{zone}'"))
        connection.execute(sa.text(held), {"seconds": seconds})


def release(database: CatalogDatabase) -> None:
    with database.engine.connect() as connection:
        connection.execute(sa.text("DELETE FROM paimon_distributed_locks"))


def test_a_commit_and_those_of_writers_take_turns_under_the_lock(
    driver: Driver, orders: PaimonOrders, database: CatalogDatabase, worker_faults: Path
) -> None:
    """A writer that begins between the last look and the commit waits, and then commits. The lock is free then."""
    with suffering(worker_faults, "proposed", "hold", service="compaction") as stands:
        run = driver.submit(orders, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        assert locks(database) == ["jdbc.shop.orders"]
        writer = threading.Thread(target=orders.write, args=(rows(100, "beside"),))
        writer.start()
        writer.join(2)
        assert writer.is_alive(), "the writer committed although the lock was held"
        assert len(orders.snapshots()) == 6
    outcome = driver.next(run, Ended).outcome
    writer.join(60)
    assert isinstance(outcome, Succeeded), outcome
    assert [(one["id"], one["commitKind"]) for one in orders.snapshots()[6:]] == [(7, "COMPACT"), (8, "APPEND")]
    assert orders.read() == sorted(orders.expected)
    assert locks(database) == []


def test_a_lock_that_another_program_holds_is_waited_for(
    driver: Driver, orders: PaimonOrders, database: CatalogDatabase
) -> None:
    """Nothing is committed while the row of the lock is there."""
    hold(database, seconds=480)
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    with pytest.raises(AssertionError, match="did not come true"):
        eventually(lambda: len(orders.snapshots()) > 6, within=3)
    release(database)
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert orders.read() == sorted(orders.expected)


def test_the_lock_of_a_dead_program_ends_after_its_time(
    driver: Driver, orders: PaimonOrders, database: CatalogDatabase
) -> None:
    """Then it is taken, and free again after the commit."""
    hold(database, seconds=2)
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert locks(database) == []
    assert orders.read() == sorted(orders.expected)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_in_postgresql_the_lock_of_a_program_in_another_time_zone_holds_nobody_off(
    driver: Driver, orders: PaimonOrders, database: CatalogDatabase
) -> None:
    """Paimon writes its time without a zone. A program in a zone to the east takes it for old. So all programs must run
    in one zone, and a commit of Lakewarden replaces nothing in any case.
    """
    hold(database, seconds=480, zone="America/New_York")
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.read() == sorted(orders.expected)


@pytest.mark.faults
@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
def test_a_started_daemon_serves_a_table_by_its_name_beside_a_writer_under_the_lock(
    orders: PaimonOrders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Compactions and cleans run. No commit of the writer fails, and each read between finds every row."""
    clean = {"trigger": {"num_commits": 3}, "options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 3}}
    services = {"compaction": {"trigger": {"num_commits": 3}}, "clean": clean}
    orders.told = {"longest_outage": "0s", "flink_restores": "0s"}
    conf = {"spark.driver.extraJavaOptions": java.LIGHT, "spark.driver.extraClassPath": drivers()}
    daemon = daemon_of(orders, services, formats=["paimon"], conf=conf)
    daemon.start()
    seen: list[bool] = []
    write = writing(orders, seen)

    def served() -> bool:
        write()
        done = [{run["state"] for run in daemon.runs(service)} for service in services]
        return all("SUCCEEDED" in one for one in done)

    daemon.until(served)
    assert all(seen)
    assert orders.read() == sorted(orders.expected)
    assert [run["outcome"] for service in services for run in daemon.runs(service) if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0
