"""A Hive metastore. The pointer is the parameter `metadata_location` of a table. The client of pyiceberg reads it.

Source: `org.apache.iceberg.hive.HiveTableOperations` of Iceberg 1.11: the parameter `table_type` is ICEBERG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]
from hive_metastore.ttypes import NoSuchObjectException  # type: ignore[import-untyped]

from lakewarden.planners.formats.iceberg.catalogs.answers import UnansweredError
from lakewarden.planners.formats.iceberg.catalogs.settings import CatalogSettings, HiveCatalog
from lakewarden.planners.metastores import Metastores, NoAnswerError
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
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
            raise PermanentError(f"{identifier} of the catalog {self._name} is no Iceberg table")
        return str(location)

    def hands_out(self, identifier: str) -> str | None:
        """Return None: a metastore gives no credentials for files."""
        return None

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


# Whether commits to a table of a Hive metastore exclude each other. Pure.
#
# Iceberg's client exchanges the pointer of a table under a lock of the metastore. A table, or a client, may do without
# (`engine.hive.lock-enabled=false`). Then the metastore has to compare the pointer with the expected one in the same
# transaction in which it exchanges it (HIVE-26882). A metastore that does not know this condition ignores it. So a
# commit may be replaced by another one, and its rows are lost.
#
# Source: Iceberg 1.11, `hive.HiveTableOperations.hiveLockEnabled` and `doCommit`. Hive 2.3.10, `HiveAlterHandler`: the
# condition is `expected_parameter_key`. Run: of 150 exchanges by six clients, the metastore 2.3.10 took 27 and refused
# 123, and each of the 27 was there. The metastore 2.3.9 took all 150, and 121 of them were replaced.

OF_A_CLIENT = "iceberg.engine.hive.lock-enabled"
"""The setting of a client, in Hadoop's configuration."""

COMMITTING = frozenset({Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE, Service.CLEAN, Service.TABLE_STATS})
"""The services that commit to a table."""

_OF_A_TABLE = "engine.hive.lock-enabled"


class NoLock(NamedTuple):
    """Why commits to a table may replace each other, with the remedy for an operator."""

    reason: str
    remedy: str


def why_commits_may_be_lost(
    properties: Mapping[str, str], catalog: CatalogSettings | None, *, client: str | None = None
) -> NoLock | None:
    """Return why a commit may replace another one. None if it cannot, as far as the settings tell.

    `properties` are those of the table, which come first. `client` is the setting in Hadoop's configuration.
    """
    if not isinstance(catalog, HiveCatalog) or catalog.compares_pointers:
        return None
    ours = catalog.properties.get(f"hadoop.{OF_A_CLIENT}") or client or "true"
    of_a_table = properties.get(_OF_A_TABLE)
    setting = f"the table says {_OF_A_TABLE}" if of_a_table is not None else f"our client has {OF_A_CLIENT}"
    if _is_locked(ours, unclear=True) if of_a_table is None else _is_locked(of_a_table, unclear=False):
        return None
    return NoLock(
        f"{setting}=false: commits take no lock of the metastore. A metastore that does not compare pointers "
        "(HIVE-26882) then lets one commit replace another one, with its rows",
        "if the metastore compares them (Hive 2.3.10 and 4.0.0 do, 2.3.9 and 3.1.3 do not), set "
        f"compares_pointers: true at the catalog; otherwise let all clients take locks ({_OF_A_TABLE}=true)",
    )


def _is_locked(value: str, *, unclear: bool) -> bool:
    """Return what a setting says. Hadoop's configuration takes any other word for its default, and Iceberg for
    false.
    """
    return {"true": True, "false": False}.get(value.strip().lower(), unclear)
