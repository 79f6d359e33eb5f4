"""The options that Lakewarden asks of a writer of an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.hudi.writers.writer_options import STREAMER
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.writers.writer_options import writer_options
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.reporting.writer_options import engine_of

HOOK = "http://lakewarden:8080/v1/hooks/iceberg"
ENGINES = (SPARK, FLINK)
REST = {"type": "rest", "uri": "http://catalog:8181"}


def _table(*services: Service, catalog: Mapping[str, Any] | None = None) -> Table:
    policies = {service: Policy(trigger=NumCommits(at_least=5), options=None) for service in services}
    return Table(
        id=TableId("orders"),
        format="iceberg",
        location="catalog://lake/sales.orders",
        catalog=None if catalog is None else TypeAdapter(Catalog).validate_python(catalog),
        policies=policies,
    )


def _set(table: Table, engine: WriterEngine) -> Mapping[str, str]:
    found = writer_options(table, engine=engine, hook_url=HOOK)
    assert len({option.key for option in found}) == len(found)
    assert all(option.why for option in found)
    return {option.key: option.value for option in found}


def test_appends_fail_no_row_level_command_of_spark() -> None:
    """Under Iceberg's default, serializable, a single concurrent append makes the command fail."""
    found = _set(_table(), SPARK)

    assert {found[f"write.{command}.isolation-level"] for command in ("merge", "update", "delete")} == {"snapshot"}
    optional = {option.key for option in writer_options(_table(), engine=SPARK, hook_url=HOOK) if option.optional}
    assert optional == {key for key in found if key.endswith("isolation-level")}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_moved_pointer_is_met_with_more_attempts(engine: WriterEngine) -> None:
    """Lakewarden's commits move the pointer, too."""
    assert int(_set(_table(), engine)["commit.retry.num-retries"]) > 4


@pytest.mark.parametrize(
    ("service", "key"),
    [
        (Service.COMPACTION, "flink-maintenance.rewrite.enabled"),
        (Service.COMPACTION, "compaction-enabled"),
        (Service.CLEAN, "flink-maintenance.expire-snapshots.enabled"),
        (Service.ORPHANS, "flink-maintenance.delete-orphan-files.enabled"),
    ],
)
def test_flinks_sink_leaves_our_services_to_us_and_keeps_the_others(service: Service, key: str) -> None:
    """If two programs service one table, the work is done twice. If none does, it is not done."""
    assert _set(_table(service), FLINK)[key] == "false"
    assert key not in _set(_table(*set(Service) - {service}), FLINK)


def test_advice_on_the_distribution_is_about_the_files_that_we_join() -> None:
    """Without a compaction here the files are not our concern. Spark distributes by partitions by default."""
    assert _set(_table(Service.COMPACTION), FLINK)["write.distribution-mode"] == "hash"
    assert "write.distribution-mode" not in _set(_table(Service.CLEAN), FLINK)
    assert "write.distribution-mode" not in _set(_table(Service.COMPACTION), SPARK)


@pytest.mark.parametrize("engine", ENGINES)
def test_old_metadata_files_are_deleted_by_commits(engine: WriterEngine) -> None:
    """Expiring snapshots leaves the metadata files of all earlier versions."""
    assert _set(_table(), engine)["write.metadata.delete-after-commit.enabled"] == "true"


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        (SPARK, "spark.sql.catalog.lake.rest-metrics-reporting-enabled"),
        (FLINK, "rest-metrics-reporting-enabled"),
    ],
)
def test_writers_on_a_rest_catalog_report_their_commits(engine: WriterEngine, key: str) -> None:
    """An ingress can mirror the reports to Lakewarden. The reason names the address."""
    found = writer_options(_table(catalog=REST), engine=engine, hook_url=HOOK)

    (report,) = (option for option in found if "metrics" in option.key)
    assert (report.key, report.value) == (key, "true")
    assert f"{HOOK}/v1/.../metrics?catalog=lake" in report.why


def test_other_catalogs_take_no_reports() -> None:
    """No option is asked of a writer without effect."""
    jdbc = {"type": "jdbc", "uri": "jdbc:postgresql://db/catalog", "warehouse": "s3://lake"}

    assert not [key for key in _set(_table(catalog=jdbc), SPARK) if "metrics" in key]


def test_hudi_streamer_is_told_that_it_is_at_the_wrong_table() -> None:
    """The message says which engine to ask for instead."""
    with pytest.raises(PermanentError, match="ask for spark or flink"):
        engine_of(_table(), ICEBERG, STREAMER.name)
