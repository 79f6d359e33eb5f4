"""The settings of a catalog. The reader of pointers and Spark both obey this one list."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, assert_never

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.databases import JDBC_URIS
from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.settings import SecretSetting

_OURS = {
    "type": "type",
    "catalog-impl": "type",
    "uri": "uri",
    "warehouse": "warehouse",
    "jdbc.user": "user",
    "jdbc.password": "password",
    "token": "token",
    "credential": "credential",
    "oauth2-server-uri": "oauth2_server_uri",
    "scope": "scope",
}
"""Properties that have a setting of their own. As further properties they would override the setting, and secrets would
stand in the file."""


_OF_SIGNATURES = ("rest.sigv4-enabled", "rest.signing-", "rest.access-key-id", "rest.secret-access-key")
"""Properties by which Iceberg's own clients sign their requests."""

DELEGATION_PROPERTY = "header.X-Iceberg-Access-Delegation"
"""The property by which Iceberg's own clients ask for credentials."""


class Access(StrEnum):
    """The kinds of credentials for the files of a catalog's tables."""

    STORAGE = "storage"
    VENDED = "vended"


class SigV4(Settings):
    """Amazon's signature (version 4) on each request to a REST catalog, as Glue and S3 Tables require it."""

    service: str = Field(pattern=r"^[a-z0-9-]{1,64}$")
    """The service that is signed for: `glue`, `s3tables`, or `execute-api` behind Amazon's API gateway."""

    region: str = Field(pattern=r"^[a-z0-9-]{1,64}$")
    """The region that is signed for."""

    access_key: SecretSetting | None = None
    """The access key. By default the keys of the environment are used: variables, web identity, profile of the
    instance."""

    secret_key: SecretSetting | None = None
    """The secret key that belongs to the access key."""

    @model_validator(mode="after")
    def _keys_belong_together(self) -> SigV4:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together: give both or none")
        return self


class CatalogSettings(Settings):
    """The settings that every kind of catalog has."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request without Spark fails if it is not answered within this time."""

    requests_at_once: Annotated[int, Within(1, 256)] = 16
    """The most requests without Spark at a time. A request waits for a place, up to `timeout`. A folder
    (`type=hadoop`) has no such limit."""

    properties: dict[str, str] = Field(default_factory=dict)
    """Further properties, as Iceberg's own catalogs name them (none by default)."""

    @property
    def needs(self) -> frozenset[str]:
        """Return the further jars that Spark needs for the catalog: none."""
        return frozenset()

    @field_validator("properties")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key in _OURS:
                raise ValueError(f"{key} is not a property here: set {_OURS[key]} beside properties")
        return value


class HadoopCatalog(CatalogSettings):
    """`type=hadoop`: a folder of tables, on a file system with atomic renames (not plain S3)."""

    type: Literal["hadoop"]

    warehouse: str
    """The folder: an absolute path, or an address with a scheme."""


class JdbcCatalog(CatalogSettings):
    """`type=jdbc`: rows of a database. Spark needs the database's driver on its class path
    (`spark.<profile>.conf: {spark.driver.extraClassPath: ...}`).
    """

    type: Literal["jdbc"]

    uri: str = Field(pattern=JDBC_URIS, examples=["jdbc:postgresql://db:5432/catalog"])
    """The database, as JDBC writes it, without user and password: `jdbc:postgresql://host:5432/catalog`."""

    warehouse: str
    """The folder for new tables."""

    user: str | None = None
    """The database's user."""

    password: SecretSetting | None = None
    """The user's password."""

    catalog_name: str | None = None
    """The name under which the table's writers know the catalog, if it is not this one. It is part of the key of the
    rows."""


class RestCatalog(CatalogSettings):
    """`type=rest`: a server that speaks Iceberg's REST protocol."""

    type: Literal["rest"]

    uri: str = Field(pattern=r"^https?://[^\s]+$", examples=["https://catalog:8181/api/catalog"])
    """The server, as in `http://catalog:8181`."""

    warehouse: str | None = None
    """The warehouse to ask for, if the server has several."""

    token: SecretSetting | None = None
    """A bearer token."""

    credential: SecretSetting | None = None
    """An OAuth2 client credential, `id:secret`."""

    oauth2_server_uri: str | None = None
    """The address at which the credential is exchanged for a token."""

    scope: str | None = None
    """The scope to ask for."""

    sigv4: SigV4 | None = None
    """How requests are signed, if the server requires Amazon's signature (by default they are not signed). It takes the
    place of token and credential."""

    access: Access = Access.STORAGE
    """The credentials for the files of the tables. `storage` means those of the section `storage`. `vended` means those
    that the server hands out for each table (S3 alone). Files are not read through a server that signs each request."""

    @field_validator("properties")
    @classmethod
    def _delegates_by_its_setting(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key.lower() == DELEGATION_PROPERTY.lower():
                raise ValueError(f"{key} is not a property here: set access: vended beside properties")
            if key.startswith(_OF_SIGNATURES):
                raise ValueError(f"{key} is not a property here: set sigv4 beside properties")
        return value

    @model_validator(mode="after")
    def _one_way_in(self) -> RestCatalog:
        if self.sigv4 is not None and (self.token is not None or self.credential is not None):
            raise ValueError("sigv4 takes the place of token and credential: remove one")
        return self

    @property
    def needs(self) -> frozenset[str]:
        """Return the further jars that Spark needs for the catalog, by their words in `OnSpark.clients`."""
        return frozenset({"aws"} if self.sigv4 is not None or self.access is Access.VENDED else ())


class HiveCatalog(CatalogSettings):
    """`type=hive`: a Hive metastore."""

    type: Literal["hive"]

    uri: str = Field(pattern=URIS, examples=["thrift://metastore:9083"])
    """The metastore, `thrift://host:9083`, with commas between several."""

    warehouse: str | None = None
    """The folder for new tables."""

    compares_pointers: bool = False
    """Whether the metastore compares the pointer of a table when it exchanges it (HIVE-26882). Hive 2.3.10 does, and
    2.3.9 does not (run). Hive 4.0.0 does, and 3.1.3 does not (read in the classes of their jars). If not, a table that
    is committed to without locks (`engine.hive.lock-enabled=false`) is Blocked, because commits could replace each
    other. Tables with locks need no comparison."""


Catalog = Annotated[HadoopCatalog | JdbcCatalog | RestCatalog | HiveCatalog, Field(discriminator="type")]


def shared_name(name: str, catalog: Catalog, identifier: str) -> str:
    """Return a name that is the same for every address of a table, as far as the settings of its catalog tell.

    The catalog's name is part of the key of a database row. A folder and a server have no other name than their
    address.
    """
    match catalog:
        case HadoopCatalog():
            return f"{catalog.warehouse.rstrip('/')}/{identifier.replace('.', '/')}"
        case JdbcCatalog():
            return f"{catalog.uri} {catalog.catalog_name or name} {identifier}"
        case RestCatalog():
            return f"{catalog.uri.rstrip('/')} {catalog.warehouse or ''} {identifier}"
        case HiveCatalog():
            return f"{catalog.uri} {identifier}"
        case _:
            assert_never(catalog)


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


def without_locks(
    properties: Mapping[str, str], catalog: CatalogSettings | None, *, client: str | None = None
) -> Blocker | None:
    """Return the blocker if a commit may replace another one. None if it cannot, as far as the settings tell.

    `properties` are those of the table, which come first. `client` is the setting in Hadoop's configuration.
    """
    if not isinstance(catalog, HiveCatalog) or catalog.compares_pointers:
        return None
    ours = catalog.properties.get(f"hadoop.{OF_A_CLIENT}") or client or "true"
    of_a_table = properties.get(_OF_A_TABLE)
    setting = f"the table says {_OF_A_TABLE}" if of_a_table is not None else f"our client has {OF_A_CLIENT}"
    if _is_locked(ours, unclear=True) if of_a_table is None else _is_locked(of_a_table, unclear=False):
        return None
    return Blocker(
        code="lock_missing",
        services=COMMITTING,
        reason=f"{setting}=false: commits take no lock of the metastore. A metastore that does not compare pointers "
        "(HIVE-26882) then lets one commit replace another one, with its rows",
        remedy="if the metastore compares them (Hive 2.3.10 and 4.0.0 do, 2.3.9 and 3.1.3 do not), set "
        f"compares_pointers: true at the catalog; otherwise let all clients take locks ({_OF_A_TABLE}=true)",
    )


def _is_locked(value: str, *, unclear: bool) -> bool:
    """Return what a setting says. Hadoop's configuration takes any other word for its default, and Iceberg for
    false.
    """
    return {"true": True, "false": False}.get(value.strip().lower(), unclear)
