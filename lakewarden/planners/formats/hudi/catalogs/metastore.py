"""The Hudi tables that a Hive metastore knows, each once: `_ro` and `_rt` are two views of one table.

Sources: Spark's `HiveExternalCatalog` (the parameter `spark.sql.sources.provider`, and the serde's `path`, which wins
over the storage descriptor's location there), Hudi's `HoodieHiveSyncClient` and `HoodieInputFormatUtils` (the input
formats, and the suffixes), Flink's `HiveCatalog` (the parameter `connector`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from lakewarden.planners.formats.hudi.catalogs.paths import HiveCatalog
from lakewarden.planners.metastores import Metastores, NoAnswerError
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Listing
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_below, is_in_catalog

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]

_HUDI = "hudi"
_TELLING = ("spark.sql.sources.provider", "connector")
_INPUT_FORMATS = ("org.apache.hudi.hadoop.", "com.uber.hoodie.hadoop.")
_VIEWS = ("_ro", "_rt")
_OF_LOCKS = "hoodie.write.lock."
_AT_ONCE = 200


class _Known(NamedTuple):
    """What the metastore says of a table: its address, and the options of its writers that name a lock. Spark SQL keeps
    `TBLPROPERTIES` there.
    """

    address: str
    properties: Mapping[str, str]


def tables_known(name: str, catalog: HiveCatalog) -> Listing:
    """Return the Hudi tables of the databases that are wanted, by `database.table`, with their canonical locations.

    A single database that cannot be listed is reported. Raises TemporaryError if no metastore answers, and
    PermanentError if the client is not installed.
    """
    metastores = Metastores(name, catalog.uri, timeout=catalog.timeout)
    addresses: dict[str, _Known] = {}
    unlisted: dict[str, str] = {}
    for database in sorted(metastores.asked(lambda client: client.get_all_databases())):
        if not any(fnmatchcase(database, pattern) for pattern in catalog.databases):
            continue
        try:
            addresses |= metastores.asked(partial(_tables_of, database=database))
        except NoAnswerError:
            raise
        except TemporaryError as error:
            unlisted[database] = str(error)
    return _each_once(addresses, unlisted, catalog)


def _tables_of(client: Client, *, database: str) -> dict[str, _Known]:
    """Return the Hudi tables of a database by identifier. A database that was dropped has none."""
    from hive_metastore.ttypes import NoSuchObjectException  # type: ignore  # noqa: PLC0415

    try:
        names = iter(sorted(client.get_all_tables(database)))
    except NoSuchObjectException:
        return {}
    tables = {}
    while some := list(islice(names, _AT_ONCE)):
        for table in client.get_table_objects_by_name(database, some):
            address = address_of(table)
            if address is not None:
                lock_properties = {
                    key: value for key, value in (table.parameters or {}).items() if key.startswith(_OF_LOCKS)
                }
                tables[f"{database}.{table.tableName}"] = _Known(address, lock_properties)
    return tables


def address_of(table: Any) -> str | None:
    """Return the address of a table in the metastore's spelling. None if it is no Hudi table."""
    parameters, storage = table.parameters or {}, table.sd
    is_hudi = any((parameters.get(key) or "").lower() == _HUDI for key in _TELLING)
    if storage is None or not (is_hudi or (storage.inputFormat or "").startswith(_INPUT_FORMATS)):
        return None
    serde = storage.serdeInfo
    path = (serde.parameters or {}).get("path") if serde is not None else None
    return path or storage.location or ""


def _each_once(addresses: Mapping[str, _Known], unlisted: Mapping[str, str], catalog: HiveCatalog) -> Listing:
    """Return the tables by one name each. Of several names for a location it is the first that is no view's."""
    names: dict[str, list[str]] = {}
    refused: dict[str, str] = {}
    for identifier, entry in addresses.items():
        try:
            names.setdefault(_location(entry.address, catalog), []).append(identifier)
        except PermanentError as wrong:
            refused[identifier] = str(wrong)
    tables: dict[str, str] = {}
    properties: dict[str, Mapping[str, str]] = {}
    for location, known_as in names.items():
        stems = sorted({_stem(name, known_as) for name in known_as}, key=lambda stem: (stem not in known_as, stem))
        for stem in stems[1:]:
            refused[stem] = f"it is the table {stems[0]}: both are at {location}"
        if stems[0] in tables or (stems[0] in addresses and stems[0] not in known_as):
            refused[location] = f"the metastore knows another table as {stems[0]}"
        else:
            tables[stems[0]] = location
            of_locks = [addresses[name].properties for name in known_as if addresses[name].properties]
            if of_locks:
                properties[stems[0]] = of_locks[0]
    return Listing(tables=tuple(tables), locations=tables, unlisted=unlisted, refused=refused, properties=properties)


def _stem(name: str, known_as: Collection[str]) -> str:
    """Return the name of the table of a view; the name itself if it is the only one of its table."""
    suffix = next((suffix for suffix in _VIEWS if name.endswith(suffix)), None)
    if suffix is None:
        return name
    stem = name.removesuffix(suffix)
    family = {stem, *(stem + VIEW for VIEW in _VIEWS)} - {name}
    return name if family.isdisjoint(known_as) else stem


def _location(address: str, catalog: HiveCatalog) -> str:
    """Return a canonical location. Raises PermanentError if no table of the catalog can be there."""
    location = canonical_location(address)
    if is_in_catalog(location) or location == "/":
        raise PermanentError(f"{shown(address)} cannot be the place of a table")
    below = [canonical_location(place) for place in catalog.below]
    if below and not any(is_below(location, place) for place in below):
        raise PermanentError(f"{shown(address)} is below none of the places that the catalog's below names")
    return location
