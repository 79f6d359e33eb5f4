"""The Paimon tables of a Hive metastore, and their folders.

Source: `org.apache.paimon.hive.HiveCatalog` of Paimon 1.3.1 (`isPaimonTable`, `getTableLocation`), and
`TBPropertiesLocationHelper`: with `location-in-properties` the parameter `paimon_location` is the folder.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakewarden.planners.formats.paimon.catalogs.settings import HiveCatalog
from lakewarden.planners.metastores import Metastores, NoAnswerError
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Listing
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.locations import canonical_location, is_below, is_in_catalog

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]

_INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_KIND, _PAIMON = "table_type", "paimon"
_IN_PROPERTIES, _LOCATION = "location-in-properties", "paimon_location"
_AT_ONCE = 200


def place_known(name: str, catalog: HiveCatalog, identifier: str) -> str:
    """Return the canonical folder of `database.table`. It takes one request.

    Raises TemporaryError if no metastore answers, and PermanentError if there is no such Paimon table, or none may be
    there.
    """
    from hive_metastore.ttypes import NoSuchObjectException  # type: ignore  # noqa: PLC0415 - an optional package

    database, _, table = identifier.partition(".")
    metastores = Metastores(name, catalog.uri, timeout=catalog.timeout)
    try:
        hive_table = metastores.asked(lambda client: client.get_table(database, table))
    except NoSuchObjectException:
        raise PermanentError(f"the catalog {name} has no table {identifier}") from None
    if not _is_paimon(hive_table):
        raise PermanentError(f"{identifier} of the catalog {name} is not a Paimon table")
    return _location(hive_table, catalog)


def tables_known(name: str, catalog: HiveCatalog) -> Listing:
    """Return the names of the Paimon tables. A single database that cannot be listed is reported.

    Raises TemporaryError if no metastore answers, and PermanentError if the client is not installed.
    """
    metastores = Metastores(name, catalog.uri, timeout=catalog.timeout)
    tables: list[str] = []
    unlisted: dict[str, str] = {}
    refused: dict[str, str] = {}
    for database in sorted(metastores.asked(lambda client: client.get_all_databases())):
        try:
            hive_tables = metastores.asked(partial(_tables_of, database=database))
        except NoAnswerError:
            raise
        except TemporaryError as error:
            unlisted[database] = str(error)
            continue
        for table in hive_tables:
            identifier = f"{database}.{table.tableName}"
            try:
                _location(table, catalog)
            except PermanentError as wrong:
                refused[identifier] = str(wrong)
            else:
                tables.append(identifier)
    return Listing(tables=tables, unlisted=unlisted, refused=refused)


def _tables_of(client: Client, *, database: str) -> list[Any]:
    """Return the Paimon tables of a database. A database that was dropped has none."""
    from hive_metastore.ttypes import NoSuchObjectException  # noqa: PLC0415 - an optional package

    try:
        names = iter(sorted(client.get_all_tables(database)))
    except NoSuchObjectException:
        return []
    tables: list[Any] = []
    while some := list(islice(names, _AT_ONCE)):
        tables += [table for table in client.get_table_objects_by_name(database, some) if _is_paimon(table)]
    return sorted(tables, key=lambda table: str(table.tableName))


def _is_paimon(table: Any) -> bool:
    kind = (table.parameters or {}).get(_KIND, "")
    return kind.lower() == _PAIMON or (table.sd is not None and table.sd.inputFormat == _INPUT_FORMAT)


def _location(table: Any, catalog: HiveCatalog) -> str:
    """Return the canonical folder of a table. Raises PermanentError if no table of the catalog can be there."""
    address = table.sd.location if table.sd is not None else None
    if catalog.properties.get(_IN_PROPERTIES) == "true":
        address = (table.parameters or {}).get(_LOCATION) or address
    if not address:
        raise PermanentError("the metastore tells no folder of the table")
    location = canonical_location(address)
    if is_in_catalog(location) or location == "/":
        raise PermanentError(f"{shown(address)} cannot be the place of a table")
    if catalog.below and not any(is_below(location, canonical_location(place)) for place in catalog.below):
        raise PermanentError(f"{shown(address)} is below none of the places that the catalog's below names")
    return location
