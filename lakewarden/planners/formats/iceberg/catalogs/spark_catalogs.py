"""The settings of a catalog in Spark's terms. Spark commits through this catalog.

Source: Iceberg 1.11, `CatalogProperties`, `CatalogUtil`, `jdbc.JdbcUtil`, `rest.auth.OAuth2Properties`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import assert_never

from lakewarden.planners.formats.iceberg.catalogs.settings import (
    DELEGATION_PROPERTY,
    Access,
    Catalog,
    HadoopCatalog,
    HiveCatalog,
    JdbcCatalog,
    RestCatalog,
    SigV4,
)
from lakewarden.planners.storage.locations import canonical_location, hadoop_location
from lakewarden.planners.storage.settings import Secret

_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_A_REGION = "us-east-1"
"""The region if neither the server nor the environment names one. obstore takes the same one."""

_BUSY_MILLISECONDS = "20000"
"""How long a commit to SQLite waits for another one, in milliseconds."""


def spark_conf(name: str, catalog: Catalog) -> dict[str, str]:
    """Return the configuration of a Spark session that knows the catalog. It holds secrets: never log it.

    Spark knows the catalog as `name`. For a database with another key it is that key, because Iceberg looks for rows by
    Spark's name. The catalog caches no tables, because a cached table would be old. Raises PermanentError if a secret
    is missing.
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
                # Lakewarden creates no tables in the database of others, and leaves its schema as it is. V1 would alter
                # the schema for views, which Lakewarden does not use.
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
                **({} if catalog.sigv4 is None else _signed(catalog.sigv4)),
                **_reached(catalog.access),
            }
        case HiveCatalog():
            return {"uri": catalog.uri, "warehouse": catalog.warehouse}
        case _:
            assert_never(catalog)


def _signed(settings: SigV4) -> Mapping[str, str | None]:
    return {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": settings.service,
        "rest.signing-region": settings.region,
        "rest.access-key-id": _value(settings.access_key),
        "rest.secret-access-key": _value(settings.secret_key),
    }


def _reached(access: Access) -> Mapping[str, str | None]:
    """Return the properties by which Iceberg reads a table's files: with the credentials of the server, or through
    Hadoop.

    By default Iceberg takes its own client of S3 if that is on the class path. Then the settings of the stores would
    not hold. A table in Iceberg's cache would keep its first credentials.
    """
    match access:
        case Access.STORAGE:
            return {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}
        case Access.VENDED:
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _A_REGION
            return {
                DELEGATION_PROPERTY: "vended-credentials",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "rest-table-cache.max-entries": "0",
                "client.region": region,
            }
        case _:
            assert_never(access)


def _as_hadoop_spells(warehouse: str) -> str:
    return hadoop_location(canonical_location(warehouse))


def _value(secret: Secret | None) -> str | None:
    return None if secret is None else secret.value()
