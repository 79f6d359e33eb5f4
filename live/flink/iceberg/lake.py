"""The catalog that Flink, Spark, Lakewarden and pyiceberg share: one SQLite file, and one name of the catalog for all
of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

_NAME, _NAMESPACE = "lake", "shop"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What a reader of a table finds: the number of rows, and how many of them are there more than once."""

    rows: int
    twice: int


class Lake:
    """Everything below one folder."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = folder / "warehouse"
        self.warehouse.mkdir(parents=True)
        self._database = folder / "catalog.db"

    @property
    def uri(self) -> str:
        """Return the database, as JDBC writes it."""
        return f"jdbc:sqlite:{self._database}"

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the catalog's settings, as Lakewarden's configuration has them."""
        return {"type": "jdbc", "uri": self.uri, "warehouse": str(self.warehouse)}

    def identifier(self, table: str) -> str:
        """Return a table's name in every engine's SQL."""
        return f"{_NAME}.{_NAMESPACE}.{table}"

    def location(self, table: str) -> str:
        """Return a table's address in Lakewarden's configuration."""
        return f"catalog://{_NAME}/{_NAMESPACE}.{table}"

    def commits(self, table: str) -> int:
        """Return how many snapshots a table has; none if there is no table yet."""
        try:
            return len(self._opened(table).metadata.snapshots) if self._database.exists() else 0
        except NoSuchTableError:
            return 0

    def contents(self, table: str) -> Contents:
        """Read a whole table, with pyiceberg."""
        times = Counter(self._opened(table).scan().to_arrow()["id"].to_pylist())
        return Contents(rows=times.total(), twice=times.total() - len(times))

    def _opened(self, table: str) -> Table:
        catalog = SqlCatalog(_NAME, uri=f"sqlite:///{self._database}", init_catalog_tables="false")
        return catalog.load_table(f"{_NAMESPACE}.{table}")
