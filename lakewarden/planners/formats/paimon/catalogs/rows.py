"""The tables of a JDBC catalog: rows of a database, without their folders.

Source: `org.apache.paimon.jdbc.JdbcUtils` of Paimon 1.3.1. The key of the table `paimon_tables` is catalog_key,
database_name and table_name. The folder of a table follows from its name and the warehouse.
"""

from __future__ import annotations

import sqlalchemy as sa

from lakewarden.planners.databases.rows import CatalogRows, RowErrors
from lakewarden.planners.formats.paimon.catalogs.settings import JdbcCatalog, folder_in
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Listing
from lakewarden.planners.settings import shown

_TABLE = "paimon_tables"
_ROW = sa.text(
    f"SELECT 1 AS found FROM {_TABLE} WHERE catalog_key = :key AND database_name = :database AND table_name = :table"  # noqa: S608 - a constant
)
_ROWS = sa.text(f"SELECT database_name, table_name FROM {_TABLE} WHERE catalog_key = :key")  # noqa: S608 - a constant
_KEYS = sa.text(f"SELECT DISTINCT catalog_key FROM {_TABLE}")  # noqa: S608 - a constant


class PaimonRows:
    """The rows of one catalog. Any thread may use it."""

    def __init__(self, name: str, settings: JdbcCatalog) -> None:
        """Prepare the engine without a connection. Raises PermanentError if the driver is not installed or the secret
        is missing.
        """
        self._name = name
        self._settings = settings
        errors = RowErrors(correct=f"correct catalogs.{name}.uri")
        self._rows = CatalogRows(name, settings, table=_TABLE, errors=errors)

    def place(self, identifier: str) -> str:
        """Return the folder of `database.table`. It takes one query.

        Raises PermanentError if there is no such row, and TemporaryError if the database does not answer.
        """
        folder = folder_in(self._settings.warehouse, identifier)
        database, _, table = identifier.partition(".")
        if not self._rows.select(_ROW, key=self._settings.catalog_key, database=database, table=table):
            raise PermanentError(self._missing(identifier))
        return folder

    def tables(self) -> Listing:
        """Return the names of the tables. It takes one query. Raises the same errors as `place`."""
        tables: list[str] = []
        refused: dict[str, str] = {}
        for row in self._rows.select(_ROWS, key=self._settings.catalog_key):
            database, table = str(row["database_name"]), str(row["table_name"])
            if "." in database or "." in table:
                refused[f"{database}/{table}"] = (
                    "one of its names contains a dot, and Lakewarden separates names by dots: rename the table"
                )
            else:
                tables.append(f"{database}.{table}")
        return Listing(tables=sorted(tables), refused=refused)

    def _missing(self, identifier: str) -> str:
        key = self._settings.catalog_key
        others = sorted(str(row["catalog_key"]) for row in self._rows.select(_KEYS) if row["catalog_key"] != key)
        text = f"the catalog {self._name} has no table {identifier} under the key {key!r}"
        return f"{text}; its database also has {', '.join(map(shown, others))}: see catalog_key" if others else text
