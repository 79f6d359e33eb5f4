"""Commits to tables of a real Hive metastore, beside writers that commit at the same moment.

The metastore (Hive 2.3.9) grants locks. It does not know the condition by which others compare pointers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, Outcome, Succeeded
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING, suffering
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.catalogs.metastore import RealMetastore
    from tests.support.pool.driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.faults]

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
_NAMES = itertools.count()


@dataclass
class Sales:
    """A table of six commits in a database of its own, as its writers see it in a session of Spark."""

    spark: Any
    catalog: Mapping[str, Any]
    database: str = field(default_factory=lambda: f"sales_{next(_NAMES)}")

    def __post_init__(self) -> None:
        self.session = self.spark.newSession()
        for key, value in spark_conf("lake", _SETTINGS.validate_python(dict(self.catalog))).items():
            self.session.conf.set(key, value)
        self.session.sql(f"CREATE NAMESPACE lake.{self.database}")
        self.create(rows=6)

    @property
    def assigned(self) -> Mapping[str, Any]:
        """The assignment of a run on the table."""
        location = f"catalog://lake/{self.database}.trips"
        return {"format": "iceberg", "location": location, "catalog": dict(self.catalog), "table_options": AT_ONCE}

    def create(self, *, rows: int, first: int = 0) -> None:
        self.session.sql(f"CREATE TABLE lake.{self.database}.trips (id BIGINT) USING iceberg")
        for id_ in range(first, first + rows):
            self.append(id_)

    def append(self, id_: int) -> None:
        self.session.sql(f"INSERT INTO lake.{self.database}.trips VALUES ({id_})")

    def set(self, key: str, value: str) -> None:
        self.session.sql(f"ALTER TABLE lake.{self.database}.trips SET TBLPROPERTIES ('{key}' = '{value}')")

    def rename(self) -> None:
        self.session.sql(f"ALTER TABLE lake.{self.database}.trips RENAME TO {self.database}.trips_of_before")

    def rows(self, table: str = "trips") -> list[int]:
        return sorted(row["id"] for row in self.session.table(f"lake.{self.database}.{table}").collect())

    def operations(self, table: str = "trips") -> list[str]:
        found = self.session.sql(f"SELECT operation FROM lake.{self.database}.{table}.snapshots").collect()
        return [row["operation"] for row in found]


@pytest.fixture
def sales(spark: Any, metastore: RealMetastore, tmp_path: Path) -> Sales:
    """Make a table in a metastore that grants locks."""
    return Sales(spark, {"type": "hive", "uri": metastore.uri, "warehouse": f"file://{tmp_path}/warehouse"})


def _in_its_moment(driver: Driver, sales: Sales, faults: Path, service: Service, change: Callable[[], None]) -> Outcome:
    """Carry out a run, and call `change` right before its commit."""
    point, options = {
        Service.COMPACTION: ("proposed", {}),
        Service.CLEAN: ("expiring", dict(EVERYTHING)),
    }[service]
    with suffering(faults, point, "hold", service=service.value) as stands:
        run = driver.submit(sales, service, **options)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        change()
        stands.unlink()
        return driver.next(run, Ended).outcome


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLEAN])
def test_a_writer_that_commits_in_the_moment_of_our_commit_keeps_its_rows(
    driver: Driver, sales: Sales, worker_faults: Path, service: Service
) -> None:
    """The metastore refuses our commit, and the next attempt follows upon the writer's."""
    outcome = _in_its_moment(driver, sales, worker_faults, service, lambda: sales.append(100))

    assert sales.rows() == [0, 1, 2, 3, 4, 5, 100], outcome
    assert isinstance(outcome, Succeeded)
    sales.append(101)
    assert sales.rows() == [0, 1, 2, 3, 4, 5, 100, 101]


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLEAN])
def test_a_name_that_changes_hands_in_the_moment_of_our_commit_leaves_both_tables_as_they_were(
    driver: Driver, sales: Sales, worker_faults: Path, service: Service
) -> None:
    """The table is renamed, and another one is created under its name and in its folder."""

    def exchange() -> None:
        sales.rename()
        sales.create(rows=2, first=50)

    outcome = _in_its_moment(driver, sales, worker_faults, service, exchange)

    assert (sales.rows(), sales.rows("trips_of_before")) == ([50, 51], [0, 1, 2, 3, 4, 5]), outcome
    assert not isinstance(outcome, Succeeded)
    assert (sales.operations(), sales.operations("trips_of_before")) == (["append"] * 2, ["append"] * 6)


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLEAN, Service.ARCHIVE])
def test_without_locks_and_without_a_comparison_nothing_is_committed(
    driver: Driver, spark: Any, metastore: RealMetastore, tmp_path: Path, service: Service
) -> None:
    """The reason names the setting of the table, and the remedy that of the catalog. Orphans commits nothing."""
    sales = Sales(spark, {"type": "hive", "uri": metastore.uri, "warehouse": f"file://{tmp_path}/warehouse"})
    sales.set("engine.hive.lock-enabled", "false")

    outcome = driver.carry_out(sales, service)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert "engine.hive.lock-enabled=false" in outcome.reason
    assert "compares_pointers" in outcome.reason
    assert sales.operations() == ["append"] * 6
    assert not isinstance(driver.carry_out(sales, Service.ORPHANS, unknown_for="0s"), Failed)
