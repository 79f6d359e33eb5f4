"""The suite's table: one of a JDBC catalog in SQLite, which Spark, pyiceberg and Lakewarden share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.formats.iceberg.demo import NAMESPACE, IcebergDemo
from lakewarden.demo.formats.iceberg.reader import open_named, read_snapshot
from lakewarden.demo.reader import TableRows
from lakewarden.executors.worker.bundles import bring
from lakewarden.planners.registry import FORMATS
from live.iceberg.policies import policies
from live.sqlite_driver import SQLITE

CATALOG = "lake"
"""The one name of the catalog: its rows are keyed by it."""

IDENTIFIER = f"{CATALOG}.{NAMESPACE}.{TABLE}"

TABLE_OPTIONS: Mapping[str, Any] = {
    "longest_outage": "45s",
    "quiet_for": "20s",
    "quiet_intervals": 3,
    "distance": "5s",
}
"""What takes hours on a production table takes seconds here."""

_BUSY = {"jdbc.schema-version": "V1", "jdbc.busy_timeout": "20000"}


def driver(say: Callable[[str], None] = print) -> Path:
    """Return the jar of SQLite's JDBC driver, downloaded if it is missing."""
    return bring(SQLITE, say)


def database(directory: Path) -> Path:
    """Return the catalog's file."""
    return directory / "catalog.db"


def python_catalog(directory: Path) -> dict[str, str]:
    """Return the catalog's properties as pyiceberg takes them."""
    return {"type": "sql", "uri": f"sqlite:///{database(directory)}", "warehouse": str(directory / "warehouse")}


def jdbc_catalog(directory: Path) -> dict[str, str]:
    """Return the catalog's properties as Iceberg's Java takes them."""
    uri, warehouse = f"jdbc:sqlite:{database(directory)}", str(directory / "warehouse")
    return {"type": "jdbc", "uri": uri, "warehouse": warehouse, **_BUSY}


class CatalogDemo(IcebergDemo):
    """The demo's table under a catalog, with every service."""

    services = policies(FORMATS["iceberg"].services)
    promised = tuple(services)

    def entry(self, table: Path, start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the table's entry in the configuration: by its catalog."""
        path = f"catalog://{CATALOG}/{NAMESPACE}.{TABLE}"
        return {"format": self.format, "path": path, "poll": "1s", "options": dict(TABLE_OPTIONS)}

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return the catalog, and the driver on the workers' class path."""
        catalog = {
            "format": self.format,
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{database(directory)}",
            "warehouse": str(directory / "warehouse"),
            "properties": dict(_BUSY),
        }
        conf = {"spark.driver.extraClassPath": str(driver())}
        return {"catalogs": {CATALOG: catalog}, "spark": {"default": {"conf": conf}}}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        return ("--table", IDENTIFIER, "--catalog", json.dumps(jdbc_catalog(directory)), "--jar", str(driver()))

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return the reader's arguments that name the table."""
        return ("--table", IDENTIFIER, "--catalog", json.dumps(python_catalog(directory)))

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as pyiceberg reads them."""
        return read_snapshot(open_named(IDENTIFIER, python_catalog(directory))())
