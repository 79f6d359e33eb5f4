"""A Hive metastore. The pointer is the parameter `metadata_location` of a table. The client of pyiceberg reads it.

Source: `org.apache.iceberg.hive.HiveTableOperations` of Iceberg 1.11: the parameter `table_type` is ICEBERG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]
from hive_metastore.ttypes import NoSuchObjectException  # type: ignore[import-untyped]

from lakewarden.planners.formats.iceberg.catalogs.answers import UnansweredError
from lakewarden.planners.formats.iceberg.catalogs.settings import HiveCatalog
from lakewarden.planners.metastores import Metastores, NoAnswerError
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Listing

_T = TypeVar("_T")
_ICEBERG = "iceberg"


class Metastore:
    """The metastores of one catalog. The first that answers is asked, with one connection for each request. Any thread
    may use it.
    """

    def __init__(self, name: str, settings: HiveCatalog) -> None:
        self._name = name
        self._metastores = Metastores(name, settings.uri, timeout=settings.timeout)

    def metadata_file(self, identifier: str) -> str:
        """Return the parameter `metadata_location` of the table. It takes one request."""
        database, _, table = identifier.rpartition(".")
        try:
            hive_table = self._answer(lambda client: client.get_table(database, table))
        except NoSuchObjectException:
            raise PermanentError(f"the catalog {self._name} has no table {identifier}") from None
        parameters = hive_table.parameters or {}
        kind, location = parameters.get("table_type", ""), parameters.get("metadata_location")
        if kind.lower() != _ICEBERG or not location:
            raise PermanentError(f"{identifier} of the catalog {self._name} is not an Iceberg table")
        return str(location)

    def tables(self) -> Listing:
        """Return the identifiers of the Iceberg tables, database by database."""

        def listed(client: Client) -> Iterator[str]:
            for database in client.get_all_databases():
                names = client.get_all_tables(database)
                for table in client.get_table_objects_by_name(database, names) if names else ():
                    if (table.parameters or {}).get("table_type", "").lower() == _ICEBERG:
                        yield f"{database}.{table.tableName}"

        return Listing(tables=sorted(self._answer(lambda client: list(listed(client)))))

    def _answer(self, ask: Callable[[Client], _T]) -> _T:
        try:
            return self._metastores.asked(ask)
        except NoAnswerError as error:
            raise UnansweredError(str(error)) from error
