"""A Hive metastore: the pointer is the parameter `metadata_location` of a table, read by the client of pyiceberg.

Source: `org.apache.iceberg.hive.HiveTableOperations` of Iceberg 1.11: the parameter `table_type` is ICEBERG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]
from hive_metastore.ttypes import MetaException, NoSuchObjectException  # type: ignore[import-untyped]
from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # type: ignore[import-untyped]
from thrift.Thrift import TApplicationException, TException  # type: ignore[import-untyped]
from thrift.transport.TSocket import TSocket  # type: ignore[import-untyped]
from thrift.transport.TTransport import TBufferedTransport  # type: ignore[import-untyped]

from lakewarden.planners.formats.iceberg.catalogs import HiveCatalog
from lakewarden.planners.formats.iceberg.gate import UnreachableError
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Listing

_T = TypeVar("_T")
_PORT = 9083
_ICEBERG = "iceberg"


class Metastore:
    """The metastores of one catalog, the first that answers being asked, on a connection of its own. For any thread."""

    was_let_in = False

    def __init__(self, name: str, settings: HiveCatalog) -> None:
        self._name = name
        self._settings = settings

    def metadata_file(self, identifier: str) -> str:
        """Return the table's parameter: one request."""
        database, _, table = identifier.rpartition(".")
        try:
            found = self._asked(lambda client: client.get_table(database, table))
        except NoSuchObjectException:
            raise PermanentError(f"the catalog {self._name} has no table {identifier}") from None
        parameters = found.parameters or {}
        kind, location = parameters.get("table_type", ""), parameters.get("metadata_location")
        if kind.lower() != _ICEBERG or not location:
            raise PermanentError(f"{identifier} of the catalog {self._name} is no Iceberg table")
        return str(location)

    def tables(self) -> Listing:
        """Return the identifiers of the Iceberg tables, database by database."""

        def listed(client: Client) -> Iterator[str]:
            for database in client.get_all_databases():
                names = client.get_all_tables(database)
                for table in client.get_table_objects_by_name(database, names) if names else ():
                    if (table.parameters or {}).get("table_type", "").lower() == _ICEBERG:
                        yield f"{database}.{table.tableName}"

        return Listing(tables=sorted(self._asked(lambda client: list(listed(client)))))

    def _asked(self, ask: Callable[[Client], _T]) -> _T:
        troubles, answered = [], False
        for uri in self._settings.uri.split(","):
            try:
                return self._ask_one(uri, ask)
            except NoSuchObjectException:
                raise
            except (TException, MetaException, OSError, EOFError) as trouble:
                answered = answered or isinstance(trouble, MetaException | TApplicationException)
                troubles.append(f"{uri}: {' '.join(str(trouble).split()) or type(trouble).__name__}")
        kind = TemporaryError if answered else UnreachableError
        raise kind(f"the catalog {self._name} does not answer: {'; '.join(troubles)}")

    def _ask_one(self, uri: str, ask: Callable[[Client], _T]) -> _T:
        """Ask one metastore. What it raises passes no generator's bracket: its exceptions are frozen, even to that."""
        where = urlsplit(uri)
        socket = TSocket(where.hostname, where.port or _PORT)
        socket.setTimeout(self._settings.timeout.total_seconds() * 1000)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            return ask(Client(TBinaryProtocol(transport)))
        finally:
            transport.close()
