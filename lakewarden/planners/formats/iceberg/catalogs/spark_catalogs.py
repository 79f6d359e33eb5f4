"""The Spark catalog that commits: the settings of a catalog in Spark's terms.

Source: Iceberg 1.11, `CatalogProperties`, `CatalogUtil`, `jdbc.JdbcUtil`, `rest.auth.OAuth2Properties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from lakewarden.planners.formats.iceberg.catalogs.settings import (
    Catalog,
    HadoopCatalog,
    HiveCatalog,
    JdbcCatalog,
    RestCatalog,
)
from lakewarden.planners.storage.locations import canonical_location, hadoop_location
from lakewarden.planners.storage.settings import Secret

_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_BUSY_MILLISECONDS = "20000"
"""For how long SQLite lets a commit wait for another one."""


def spark_conf(name: str, catalog: Catalog) -> dict[str, str]:
    """Return the configuration of a Spark session that knows the catalog. It holds secrets: never log it.

    Spark knows it as `name`, but for a database whose rows have another key: Iceberg looks for them by Spark's name.
    The catalog keeps no tables in memory: what it then knew of a table would be old. Raises PermanentError where a
    secret is missing.
    """
    start = f"spark.sql.catalog.{_name_in_spark(name, catalog)}"
    ours = {"type": catalog.type, "cache-enabled": "false", **_particular(catalog)}
    given = {key: value for key, value in {**ours, **catalog.properties}.items() if value is not None}
    return {start: _SPARK_CATALOG} | {f"{start}.{key}": value for key, value in given.items()}


def _name_in_spark(name: str, catalog: Catalog) -> str:
    return catalog.catalog_name or name if isinstance(catalog, JdbcCatalog) else name


def _particular(catalog: Catalog) -> Mapping[str, str | None]:
    match catalog:
        case HadoopCatalog():
            return {"warehouse": _as_hadoop_spells(catalog.warehouse)}
        case JdbcCatalog():
            sqlite = catalog.uri.startswith("jdbc:sqlite:")
            return {
                "uri": catalog.uri,
                "warehouse": catalog.warehouse,
                "jdbc.user": catalog.user,
                "jdbc.password": _value(catalog.password),
                # We make no tables in the database of others, and leave its schema as it is: views, for which V1 would
                # alter it, are nothing to us.
                "jdbc.init-catalog-tables": "false",
                "jdbc.busy_timeout": _BUSY_MILLISECONDS if sqlite else None,
            }
        case RestCatalog():
            return {
                "uri": catalog.uri,
                "warehouse": catalog.warehouse,
                "token": _value(catalog.token),
                "credential": _value(catalog.credential),
                "oauth2-server-uri": catalog.oauth2_server_uri,
                "scope": catalog.scope,
            }
        case HiveCatalog():
            return {"uri": catalog.uri, "warehouse": catalog.warehouse}
        case _:
            assert_never(catalog)


def _as_hadoop_spells(warehouse: str) -> str:
    return hadoop_location(canonical_location(warehouse))


def _value(secret: Secret | None) -> str | None:
    return None if secret is None else secret.value()
