"""Settings of a Paimon table that contradict each other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.formats.paimon.catalogs.settings import (
    AnyCatalog,
    FilesystemCatalog,
    HiveCatalog,
    JdbcCatalog,
)
from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.triggers import TimeElapsed


def found(older_than: timedelta | None) -> list[str]:
    policy = Policy(trigger=TimeElapsed(at_least=timedelta(days=1)), options=OrphansOptions(older_than=older_than))
    table = Table(
        id=TableId("trips"),
        format="paimon",
        location="/lake/trips",
        options=PaimonTableOptions(),
        policies={Service.ORPHANS: policy},
    )
    return [f"{one.key}: {one.reason}" for one in PAIMON.contradictions(table)]


def test_an_age_below_that_of_a_restored_jobs_files_is_refused_with_the_option_to_lower() -> None:
    [reason] = found(timedelta(days=2))
    assert reason.startswith("services.orphans.options.older_than: 2d is less than 7d (options.flink_restores")
    assert reason.endswith("or lower flink_restores if no writer comes back after so long")
    assert found(timedelta(days=8)) == found(None) == []


def told(location: str, catalog: AnyCatalog | None) -> list[Contradiction]:
    table = Table(
        id=TableId("trips"),
        format="paimon",
        location=location,
        catalog=catalog,
        options=PaimonTableOptions(),
        policies={Service.CLEAN: Policy(trigger=TimeElapsed(at_least=timedelta(days=1)), options=None)},
    )
    return list(PAIMON.contradictions(table))


NAMED = "catalog://shop/sales.orders"


@pytest.mark.parametrize(
    ("location", "catalog", "blocked"),
    [
        ("/lake/sales.db/orders", None, False),
        ("s3://lake/sales.db/orders", None, True),
        ("hdfs://nn/lake/sales.db/orders", None, True),
        (NAMED, FilesystemCatalog(type="filesystem", warehouse="/lake"), False),
        (NAMED, FilesystemCatalog(type="filesystem", warehouse="s3://lake"), True),
        (NAMED, JdbcCatalog(type="jdbc", uri="jdbc:sqlite:/catalog.db", warehouse="s3a://lake"), False),
        (NAMED, JdbcCatalog(type="jdbc", uri="jdbc:sqlite:/catalog.db", warehouse="s3a://lake", lock=False), True),
        (NAMED, HiveCatalog(type="hive", uri="thrift://hms:9083", lock=False), False),
    ],
)
def test_a_table_where_nothing_runs_is_told_before_the_daemon_starts(
    location: str, catalog: AnyCatalog | None, blocked: bool
) -> None:
    """As far as the configuration tells its folder. It can be observed, and the reason names what would serve it."""
    found = told(location, catalog)
    assert [(one.key, one.blocks) for one in found] == [("path", True)] * blocked
    assert all("Hive or JDBC catalog" in one.reason for one in found)
