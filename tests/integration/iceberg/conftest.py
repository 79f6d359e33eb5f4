"""Iceberg tables of a catalog in SQLite that Spark, pyiceberg and Lakewarden share, and their writers' own record."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from tests.support.iceberg.trips import CATALOG, Lake, Trips


@pytest.fixture(scope="session")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make the catalog, and configure it in the writers' session."""
    folder = tmp_path_factory.mktemp("lake")
    warehouse = str(folder / "warehouse")
    catalog = load_catalog(CATALOG, type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse)
    catalog.create_namespace("db")
    session = spark.newSession()
    start = f"spark.sql.catalog.{CATALOG}"
    session.conf.set(start, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": warehouse,
        "cache-enabled": "false",
        "jdbc.busy_timeout": "20000",
    }.items():
        session.conf.set(f"{start}.{key}", value)
    return Lake(folder=folder, catalog=catalog, spark=session)


@pytest.fixture
def trips(lake: Lake) -> Trips:
    """Write a table with six small files in each of two partitions."""
    table = lake.trips()
    table.append(commits=6)
    return table
