"""Rows that Hudi's rewrites lose unless they are told of them: partial updates, and rows with an operation."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Failed, FailureKind, Succeeded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NOTES_ALONE = ("order_id", "note", "ts")
OF_SERVICES: dict[Service, dict[str, Any]] = {
    Service.COMPACTION: {},
    Service.CLUSTERING: {"untouched_for": "0s", "sort_columns": ["order_id"]},
}


def put(orders: Orders, *keys: str, operation: str | None = None, columns: tuple[str, ...] = ()) -> None:
    """Upsert orders of the partition p0 by Hudi's write client: with their `operation`, as Flink's changelog mode does,
    or with these columns alone, as `MERGE INTO` does.
    """
    orders.versions += 1
    conf = {"hoodie.index.type": "SIMPLE"}
    with contextlib.closing(HudiClient(orders.spark, orders.location, _options({}), {}, indexes={})) as client:
        schema = json.loads(client._schema())
    if columns:
        schema["fields"] = [field for field in schema["fields"] if field["name"] in columns]
        conf["hoodie.write.partial.update.schema"] = json.dumps(schema)
    if operation is not None:
        conf["hoodie.allow.operation.metadata.field"] = "true"
    with contextlib.closing(HudiClient(orders.spark, orders.location, _options(conf), {}, indexes={})) as client:
        model, java_client = client.hudi.common.model, client.java
        said = [] if operation is None else [model.HoodieOperation.fromName(operation)]
        parsed = client.hudi.common.schema.HoodieSchema.parse(json.dumps(schema))
        records = client.java_list(
            model.HoodieAvroRecord(
                model.HoodieKey(key, "p0"),
                model.OverwriteWithLatestAvroPayload(
                    client.hudi.avro.MercifulJsonConverter().convert(json.dumps(_row(key, orders.versions)), parsed), 0
                ),
                *said,
            )
            for key in keys
        )
        instant = java_client.startCommit()
        statuses = java_client.upsert(orders.spark.sparkContext._jsc.parallelize(records), instant)
        assert java_client.commit(instant, statuses)


def _options(conf: dict[str, str]) -> HudiTableOptions:
    return HudiTableOptions.model_validate({"conf": conf})


def _row(key: str, version: int) -> dict[str, Any]:
    return {"order_id": key, "note": f"v{version}-{key}", "ts": version, "region": "p0"}


def shown(orders: Orders, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Return the rows that Spark shows."""
    found = orders.spark.read.format("hudi").load(orders.address).select("order_id", "note", "region", *columns)
    rows = [tuple(row) for row in found.collect()]
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


def test_partial_updates_are_no_part_of_a_log_compaction(driver: Driver, orders: Orders) -> None:
    """Beside whole rows, Hudi's log compaction calls the loss of each a success. A compaction keeps them."""
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    orders.write(keys=9)
    orders.write(keys=9)
    for key in ("o9", "o12", "o15"):
        put(orders, key, columns=NOTES_ALONE)
    before = shown(orders)
    assert before["o12"] == (f"v{orders.versions - 1}-o12", "p0")

    outcome = driver.carry_out(orders, Service.LOG_COMPACTION, log_blocks_threshold=2)

    assert shown(orders) == before
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind is FailureKind.PERMANENT
    assert "partial updates" in outcome.reason
    assert "remove services.log_compaction" in outcome.reason
    assert orders.plans_of(Service.LOG_COMPACTION) == set()
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert shown(orders) == before


def test_a_log_compaction_that_would_lose_operations_is_refused(driver: Driver, orders: Orders) -> None:
    """It drops them, and with them every update that has one."""
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    put(orders, "o0", "o3", "o6", operation="D")
    put(orders, "o9", "o12", operation="U")
    before = shown(orders, "_hoodie_operation")

    outcome = driver.carry_out(orders, Service.LOG_COMPACTION, log_blocks_threshold=2)

    assert isinstance(outcome, Failed), outcome
    assert "_hoodie_operation" in outcome.reason
    assert shown(orders, "_hoodie_operation") == before


@pytest.mark.parametrize("service", OF_SERVICES)
def test_rows_that_say_they_are_deleted_stay_deleted(driver: Driver, orders: Orders, service: Service) -> None:
    """Flink's changelog mode keeps them as rows. A rewrite that drops the operation shows them again."""
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    put(orders, "o0", "o3", "o6", operation="D")
    put(orders, "o9", "o12", operation="U")
    before = shown(orders, "_hoodie_operation")
    assert len(before) == 27

    outcome = driver.carry_out(orders, service, **OF_SERVICES[service])

    assert isinstance(outcome, Succeeded), outcome
    assert shown(orders, "_hoodie_operation") == before
    put(orders, "o9", operation="D")
    assert len(shown(orders)) == 26


def test_the_changes_that_a_table_keeps_for_its_consumers_are_no_rows(driver: Driver, orders: Orders) -> None:
    """The files of `hoodie.table.cdc.enabled` are named as log files are, and cannot be opened as such."""
    with (orders.path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("\nhoodie.table.cdc.enabled=true\nhoodie.table.cdc.supplemental.logging.mode=op_key_only\n")
    (orders.path / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    for service in (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING):
        orders.write(keys=9)
        orders.write(keys=9)
        options = {"log_blocks_threshold": 2} if service is Service.LOG_COMPACTION else OF_SERVICES[service]
        assert isinstance(driver.carry_out(orders, service, **options), Succeeded)
        assert orders.found() == orders.expected
        assert list(orders.path.glob("*/.*.cdc"))
