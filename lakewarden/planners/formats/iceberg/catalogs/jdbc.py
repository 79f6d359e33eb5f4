"""A JDBC catalog: rows of a database, read through SQLAlchemy.

Source: `org.apache.iceberg.jdbc.JdbcUtil` of Iceberg 1.11. The key of the table `iceberg_tables` is catalog_name,
table_namespace (its levels joined by dots) and table_name. The second schema of the table also holds views. The column
iceberg_type tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.databases.rows import CatalogRows, RowErrors
from lakewarden.planners.formats.iceberg.catalogs.answers import LoginRefusedError, UnansweredError, listing_of
from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Listing

_TABLE = "iceberg_tables"
_ROW = sa.text(
    f"SELECT * FROM {_TABLE} WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :table"  # noqa: S608 - a constant
)
_ROWS = sa.text(f"SELECT * FROM {_TABLE} WHERE catalog_name = :catalog")  # noqa: S608 - a constant
_NAMES = sa.text(f"SELECT DISTINCT catalog_name FROM {_TABLE}")  # noqa: S608 - a constant
_ERRORS = RowErrors(correct="correct its uri", login_refused=LoginRefusedError, unanswered=UnansweredError)


class JdbcRows:
    """The rows of one catalog. Any thread may use it."""

    def __init__(self, name: str, settings: JdbcCatalog) -> None:
        """Prepare the engine without a connection. Raises PermanentError if the driver is not installed or the secret
        is missing.
        """
        self._name = name
        self._key = settings.catalog_name or name
        self._rows = CatalogRows(name, settings, table=_TABLE, errors=_ERRORS)

    def metadata_file(self, identifier: str) -> str:
        """Return the metadata location of the table's row. It takes one query."""
        namespace, _, table = identifier.rpartition(".")
        rows = self._rows.select(_ROW, catalog=self._key, namespace=namespace, table=table)
        if not rows:
            raise PermanentError(self._missing(identifier))
        if _is_view(rows[0]):
            raise PermanentError(
                f"{identifier} of the catalog {self._name} is a view: remove it from the configuration"
            )
        return str(rows[0]["metadata_location"])

    def tables(self) -> Listing:
        """Return the identifiers of the rows that are tables. It takes one query."""
        rows = self._rows.select(_ROWS, catalog=self._key)
        return listing_of(
            (*str(row["table_namespace"]).split("."), str(row["table_name"])) for row in rows if not _is_view(row)
        )

    def _missing(self, identifier: str) -> str:
        others = sorted(
            str(row["catalog_name"]) for row in self._rows.select(_NAMES) if row["catalog_name"] != self._key
        )
        text = f"the catalog {self._name} has no table {identifier} under the name {self._key!r}"
        return f"{text}; its database also knows {', '.join(others)}: see catalog_name" if others else text


def _is_view(row: Mapping[str, Any]) -> bool:
    """Whether the row is a view. The first schema has only tables. A row from that time is a table."""
    return row.get("iceberg_type") not in (None, "TABLE")
