"""The settings of a catalog. The reader of places and the core of Paimon in the worker both obey this one list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field, field_validator

from lakewarden.planners.databases import JDBC_URIS
from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import (
    canonical_location,
    hadoop_location,
    is_in_catalog,
    is_local,
    spelled_location,
)
from lakewarden.planners.storage.settings import SecretSetting

_OURS = {
    "metastore": "type",
    "uri": "uri",
    "warehouse": "warehouse",
    "jdbc.user": "user",
    "jdbc.password": "password",
    "catalog-key": "catalog_key",
    "lock.enabled": "lock",
    "lock-acquire-timeout": "nothing: Lakewarden waits for a lock as long as a step may wait",
}
"""Properties that have a setting of their own. As further properties they would override the setting, and secrets would
stand in the file."""

_S3 = "s3://"
_LOCK_WAIT = "60 s"
"""How long the core waits for a lock. In a database it is also the time after which the lock of a dead program may be
taken away."""


def _place(value: str) -> str:
    """Return an address if a warehouse can be there. Raises ValueError."""
    try:
        spelled = spelled_location(value)
    except PermanentError as wrong:
        raise ValueError(str(wrong)) from wrong
    if is_in_catalog(spelled) or spelled == "/":
        raise ValueError(f"{value!r} cannot be a folder of tables")
    return value


class PaimonCatalog(Settings):
    """The settings that every kind of catalog has."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request without Spark fails if it is not answered within this time."""

    requests_at_once: Annotated[int, Within(1, 256)] = 16
    """The most connections to the database of a catalog at a time. Other catalogs have no such limit."""

    properties: dict[str, str] = Field(default_factory=dict)
    """Further properties, as Paimon's own catalogs name them (none by default)."""

    @field_validator("properties")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key in _OURS:
                raise ValueError(f"{key} is not a property here: set {_OURS[key]} beside properties")
        return value


class FilesystemCatalog(PaimonCatalog):
    """`type=filesystem`: a folder with a folder `<database>.db` for each database."""

    type: Literal["filesystem"]

    warehouse: str
    """The folder: an absolute path, or an address with a scheme."""

    _is_a_place = field_validator("warehouse")(_place)


class HiveCatalog(PaimonCatalog):
    """`type=hive`: a Hive metastore. It needs the extra `hive`."""

    type: Literal["hive"]

    uri: str = Field(pattern=URIS, examples=["thrift://metastore:9083"])
    """The metastore, `thrift://host:9083`, with commas between several. Kerberos and TLS are not supported."""

    warehouse: str | None = None
    """The folder for new tables. Lakewarden makes none: the metastore tells the folder of each table."""

    below: tuple[str, ...] = ()
    """Places such as `/lake`. A table that is below none of them is refused. People who may create tables in the
    metastore choose the locations. So set this if Lakewarden acts on the tables. By default tables may be anywhere."""

    lock: bool | None = None
    """Whether the writers commit under a lock of the metastore (`lock.enabled` of their catalogs). Lakewarden then
    commits under the same lock. By default they do so on object stores alone, as Paimon's catalogs do."""

    _are_places = field_validator("below")(lambda value: tuple(_place(place) for place in value))


class JdbcCatalog(PaimonCatalog):
    """`type=jdbc`: rows of a database. With a `lock` the worker needs the database's driver on its class path
    (`spark.<profile>.conf: {spark.driver.extraClassPath: ...}`).
    """

    type: Literal["jdbc"]

    uri: str = Field(pattern=JDBC_URIS, examples=["jdbc:postgresql://db:5432/catalog"])
    """The database, as JDBC writes it, without user and password: `jdbc:postgresql://host:5432/catalog`."""

    warehouse: str
    """The folder of the tables."""

    user: str | None = None
    """The database's user."""

    password: SecretSetting | None = None
    """The user's password."""

    catalog_key: str = "jdbc"
    """The name under which the rows are kept (`catalog-key` of the writers' catalogs)."""

    lock: bool | None = None
    """Whether the writers commit under a lock in the database (`lock.enabled` of their catalogs). Lakewarden then
    commits under the same lock. By default they do so on object stores alone, as Paimon's catalogs do."""

    _is_a_place = field_validator("warehouse")(_place)


Catalog = Annotated[FilesystemCatalog | HiveCatalog | JdbcCatalog, Field(discriminator="type")]
AnyCatalog = FilesystemCatalog | HiveCatalog | JdbcCatalog


def commits_under_lock(catalog: Any, location: str) -> bool:
    """Whether the writers of a table commit under the lock of its catalog. `location` is the table's folder. Pure."""
    if not isinstance(catalog, HiveCatalog | JdbcCatalog):
        return False
    return not is_local(location) if catalog.lock is None else catalog.lock


def keeps_commits_apart(catalog: Any, location: str) -> bool:
    """Whether no commit to a table replaces another one unnoticed: on a disk, and on S3 under the lock of its catalog.

    No other store was tried. Pure.
    """
    return is_local(location) or (location.startswith(_S3) and commits_under_lock(catalog, location))


def folder_in(warehouse: str, identifier: str) -> str:
    """Return the folder of the table `database.table` in a warehouse (`AbstractCatalog.getTableLocation`).

    Raises PermanentError if the name is no table's.
    """
    database, _, table = identifier.partition(".")
    if "." in table or "$" in table:
        raise PermanentError(
            f"{identifier} names no Paimon table: it has the form database.table, and no branch or system table"
        )
    return f"{canonical_location(warehouse)}/{database}.db/{table}"


def shared_name(catalog: AnyCatalog, identifier: str) -> str:
    """Return an address that is the same for every address of a table, as far as the settings of its catalog tell.

    A warehouse and a database tell the folder. A metastore has no other name than its address.
    """
    match catalog:
        case FilesystemCatalog() | JdbcCatalog():
            return folder_in(catalog.warehouse, identifier)
        case HiveCatalog():
            return f"{catalog.uri} {identifier}"
        case _:
            assert_never(catalog)


def core_options(catalog: HiveCatalog | JdbcCatalog) -> Mapping[str, str]:
    """Return the options by which Paimon's core opens the catalog. They hold secrets: never log them.

    Sources: `CatalogOptions`, `JdbcCatalogOptions` and `HiveCatalogOptions` of Paimon 1.3.1. Raises PermanentError if a
    secret is missing.
    """
    own: dict[str, str | None] = {"uri": catalog.uri, "cache-enabled": "false", "lock-acquire-timeout": _LOCK_WAIT}
    if catalog.lock is not None:
        own["lock.enabled"] = str(catalog.lock).lower()
    match catalog:
        case HiveCatalog():
            own |= {"metastore": "hive", "warehouse": catalog.warehouse}
        case JdbcCatalog():
            own |= {"metastore": "jdbc", "warehouse": catalog.warehouse, "catalog-key": catalog.catalog_key}
            own |= {"jdbc.user": catalog.user}
            own |= {"jdbc.password": None if catalog.password is None else catalog.password.value()}
        case _:
            assert_never(catalog)
    if own["warehouse"] is not None:
        own["warehouse"] = hadoop_location(canonical_location(own["warehouse"]))
    given = {key: value for key, value in own.items() if value is not None}
    return {**catalog.properties, **given}
