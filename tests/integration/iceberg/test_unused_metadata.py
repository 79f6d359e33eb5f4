"""Old schemas and partition specs on real Spark: clean removes what nothing needs, and the table stays readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.planners.model.instant import Service
from tests.integration.iceberg.deletions import EVERYTHING, Deletions

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

WITH_METADATA: dict[str, Any] = {**EVERYTHING, "clean_expired_metadata": True}


def evolved(trips: Trips) -> Deletions:
    """Give the table a second spec and a second schema, and write everything anew by these."""
    table = Deletions(trips)
    java = table.java()
    java.updateSpec().removeField("p").commit()
    java.updateSchema().addColumn(
        "note", trips.lake.spark._jvm.org.apache.iceberg.types.Types.StringType.get()
    ).commit()
    trips.lake.spark.sql(f"insert into {trips.sql} values (1000, 0, 'v1000', 'new')")
    trips.expected[1000] = "v1000"
    table.rewrite()
    return table


def known(trips: Trips) -> tuple[set[int], set[int]]:
    """Return the ids of the schemas and the specs that the table has, as pyiceberg reads them."""
    metadata = trips.read().metadata
    return {one.schema_id for one in metadata.schemas}, {one.spec_id for one in metadata.partition_specs}


def test_what_is_out_of_use_goes_one_run_after_its_last_snapshot(driver: Driver, trips: Trips) -> None:
    """The run that expires the last snapshot of a schema or a spec keeps it: a writer may have begun by it. Off by
    default, as Iceberg's own option is.
    """
    table = evolved(trips)
    both = known(trips)
    assert both == ({0, 1}, {0, 1})
    assert isinstance(driver.carry_out(table, Service.CLEAN, **WITH_METADATA), Succeeded)
    assert known(trips) == both
    trips.lake.spark.sql(f"insert into {trips.sql} values (1001, 0, 'v1001', 'new')")
    trips.expected[1001] = "v1001"
    trips.lake.spark.sql(f"insert into {trips.sql} values (1002, 0, 'v1002', 'new')")
    trips.expected[1002] = "v1002"
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert known(trips) == both
    trips.lake.spark.sql(f"insert into {trips.sql} values (1003, 0, 'v1003', 'new')")
    trips.expected[1003] = "v1003"

    assert isinstance(driver.carry_out(table, Service.CLEAN, **WITH_METADATA), Succeeded)

    assert known(trips) == ({1}, {1})
    assert trips.found() == trips.expected
    rows = trips.lake.spark.sql(f"select id, v from {trips.sql}").collect()
    assert {row["id"]: row["v"] for row in rows} == trips.expected
    assert table.on_disk() == table.known()
    assert isinstance(driver.carry_out(table, Service.CLEAN, **WITH_METADATA), NothingToDo)


def test_what_was_in_force_within_an_outage_stays(driver: Driver, trips: Trips) -> None:
    """A writer may commit by it, and by its spec nobody could read that file."""
    table = evolved(trips)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **WITH_METADATA), Succeeded)
    both = known(trips)
    trips.lake.spark.sql(f"insert into {trips.sql} values (1001, 0, 'v1001', 'new')")
    trips.expected[1001] = "v1001"
    young = Deletions(trips, table_options={"longest_outage": "1h", "flink_restores": "0s"})
    assert isinstance(driver.carry_out(young, Service.CLEAN, **WITH_METADATA), NothingToDo)
    assert known(trips) == both
    assert trips.found() == trips.expected
