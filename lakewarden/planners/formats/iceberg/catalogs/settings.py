"""The settings of a catalog: the one table of them that the pointer's reader and Spark both obey."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import Field, field_validator

from lakewarden.planners.metastores import URIS
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
"""Properties that are settings here: among the others they would win over them, and secrets would stand in the file."""


class CatalogSettings(Settings):
    """What holds for every kind of catalog."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request without Spark that is not answered by then has failed."""

    requests_at_once: Annotated[int, Within(1, 256)] = 16
    """So many requests without Spark may be under way at a time. Fewer are, down to one, while the catalog is slow or
    asks for it; who finds no place waits for one, up to `timeout`. A folder (`type=hadoop`) knows no such limit."""

    properties: dict[str, str] = Field(default_factory=dict)
    """Further properties, as Iceberg's own catalogs name them (none by default)."""

    @field_validator("properties")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key in _OURS:
                raise ValueError(f"{key} is no property here: say it as {_OURS[key]} beside properties")
        return value


class HadoopCatalog(CatalogSettings):
    """`type=hadoop`: a folder of tables, on a file system that renames atomically (so not on plain S3)."""

    type: Literal["hadoop"]

    warehouse: str
    """The folder: an absolute path, or an address with a scheme."""


class JdbcCatalog(CatalogSettings):
    """`type=jdbc`: rows of a database. Spark needs the database's driver on its class path
    (`spark.<profile>.conf: {spark.driver.extraClassPath: ...}`).
    """

    type: Literal["jdbc"]

    uri: str = Field(pattern=r"^jdbc:(postgresql|mysql|sqlite):\S+$")
    """The database, as JDBC writes it, without user and password: `jdbc:postgresql://host:5432/catalog`."""

    warehouse: str
    """Where new tables would be made."""

    user: str | None = None
    """The database's user."""

    password: SecretSetting | None = None
    """The user's password."""

    catalog_name: str | None = None
    """The name under which the table's writers know the catalog, if it is not this one: rows are keyed by it."""


class RestCatalog(CatalogSettings):
    """`type=rest`: a server that speaks Iceberg's REST protocol."""

    type: Literal["rest"]

    uri: str = Field(pattern=r"^https?://[^\s]+$")
    """The server, as in `http://catalog:8181`."""

    warehouse: str | None = None
    """The warehouse to ask for, where the server has several."""

    token: SecretSetting | None = None
    """A bearer token."""

    credential: SecretSetting | None = None
    """An OAuth2 client credential, `id:secret`."""

    oauth2_server_uri: str | None = None
    """Where the credential is exchanged for a token."""

    scope: str | None = None
    """The scope to ask for."""


class HiveCatalog(CatalogSettings):
    """`type=hive`: a Hive metastore."""

    type: Literal["hive"]

    uri: str = Field(pattern=URIS)
    """The metastore, `thrift://host:9083`, with commas between several."""

    warehouse: str | None = None
    """Where new tables would be made."""


Catalog = Annotated[HadoopCatalog | JdbcCatalog | RestCatalog | HiveCatalog, Field(discriminator="type")]


def shared_name(name: str, catalog: Catalog, identifier: str) -> str:
    """Return what every address of a table has in common, as far as the settings of its catalog tell.

    Rows of a database are keyed by the catalog's name; a folder and a server have no other name than their address.
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
