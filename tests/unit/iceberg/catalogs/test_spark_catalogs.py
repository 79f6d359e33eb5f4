"""One table of settings, two readers: what a catalog says reaches the reader without Spark and the one that commits."""

from __future__ import annotations

import logging
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg.catalogs import jdbc, rest
from lakewarden.planners.formats.iceberg.catalogs.settings import (
    Catalog,
    HadoopCatalog,
    HiveCatalog,
    JdbcCatalog,
    RestCatalog,
)
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.errors import PermanentError

SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
WITHOUT_SPARK = {"timeout", "requests_at_once"}
"""A time-out of requests that Spark does not make."""

FOR_NEW_TABLES = {"warehouse"}
"""Where new tables would be made: of no use to a reader of rows or of a metastore."""

EVERYTHING: dict[type[Any], dict[str, Any]] = {
    HadoopCatalog: {
        "type": "hadoop",
        "warehouse": "s3://lake/warehouse",
        "timeout": "3s",
        "requests_at_once": 7,
        "properties": {"a": "b"},
    },
    JdbcCatalog: {
        "type": "jdbc",
        "uri": "jdbc:postgresql://db:5433/iceberg?sslmode=require",
        "warehouse": "s3://lake/warehouse",
        "user": "warden",
        "password": {"env": "CATALOG_SECRET"},
        "catalog_name": "prod",
        "timeout": "3s",
        "requests_at_once": 7,
        "properties": {"a": "b"},
    },
    RestCatalog: {
        "type": "rest",
        "uri": "https://catalog:8181",
        "warehouse": "lake",
        "token": {"env": "CATALOG_SECRET"},
        "credential": {"env": "CATALOG_SECRET"},
        "oauth2_server_uri": "https://login/token",
        "scope": "ALL",
        "timeout": "3s",
        "requests_at_once": 7,
        "properties": {"a": "b"},
    },
    HiveCatalog: {
        "type": "hive",
        "uri": "thrift://metastore:9084",
        "warehouse": "s3://lake/warehouse",
        "timeout": "3s",
        "requests_at_once": 7,
        "properties": {"a": "b"},
    },
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_SECRET", "hunter2")


def _spelled(value: Any) -> str:
    return {"s3://lake/warehouse": "lake/warehouse", "{'env': 'CATALOG_SECRET'}": "hunter2"}.get(str(value), str(value))


@pytest.mark.parametrize("kind", get_args(get_args(Catalog)[0]), ids=lambda kind: kind.__name__)
def test_every_setting_reaches_spark(kind: type[Any]) -> None:
    """A setting that Spark does not obey would let it commit somewhere else than where we look."""
    written = EVERYTHING[kind]
    assert set(written) == set(kind.model_fields), "a new setting must be tried here"
    conf = spark_conf("lake", SETTINGS.validate_python(written))
    said = [*conf.values(), *(key.split(".")[3] for key in conf)]

    for key, value in written.items():
        if key not in WITHOUT_SPARK | {"properties"}:
            assert any(_spelled(value) in one for one in said), key
    name = written.get("catalog_name", "lake")
    assert conf[f"spark.sql.catalog.{name}"] == "org.apache.iceberg.spark.SparkCatalog"
    assert conf[f"spark.sql.catalog.{name}.a"] == "b"
    assert conf[f"spark.sql.catalog.{name}.cache-enabled"] == "false"
    assert conf[f"spark.sql.catalog.{name}.type"] == written["type"]


def test_every_setting_reaches_the_reader_of_rows() -> None:
    """The address, who asks and by which name, how it is secured, and for how long."""
    reader = jdbc.JdbcRows("lake", SETTINGS.validate_python(EVERYTHING[JdbcCatalog]))
    url = reader._engine.url

    assert (url.host, url.port, url.database) == ("db", 5433, "iceberg")
    assert (url.username, url.password) == ("warden", "hunter2")
    assert reader._key == "prod"
    _, arguments = reader._engine.dialect.create_connect_args(url)
    assert arguments["host"] == "db"
    assert reader._engine.pool._timeout == 3  # type: ignore[attr-defined]
    assert reader._engine.pool.size() == 7  # type: ignore[attr-defined]


def test_every_setting_reaches_the_client_of_rest() -> None:
    """All that the server may want to know, in pyiceberg's words."""
    properties = rest._properties(SETTINGS.validate_python(EVERYTHING[RestCatalog]))

    assert properties == {
        "uri": "https://catalog:8181", "warehouse": "lake", "token": "hunter2", "credential": "hunter2",
        "oauth2-server-uri": "https://login/token", "scope": "ALL", "a": "b", "lakewarden.timeout-seconds": "3.0",
        "lakewarden.requests-at-once": "7",
    }  # fmt: skip


def test_a_writers_database_is_left_as_it_is() -> None:
    """Iceberg would make tables where there are none, and alter those of its first schema."""
    conf = spark_conf("lake", SETTINGS.validate_python(EVERYTHING[JdbcCatalog]))

    assert conf["spark.sql.catalog.prod.jdbc.init-catalog-tables"] == "false"
    assert not any("schema-version" in key for key in conf)


def test_what_the_owner_says_counts_more() -> None:
    """A property may be meant to replace what we would set."""
    settings = {**EVERYTHING[HiveCatalog], "properties": {"cache-enabled": "true", "clients": "4"}}
    conf = spark_conf("lake", SETTINGS.validate_python(settings))

    assert (conf["spark.sql.catalog.lake.cache-enabled"], conf["spark.sql.catalog.lake.clients"]) == ("true", "4")


def test_a_missing_secret_is_named_and_a_given_one_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads the message finds the place; whoever reads the log finds no secret."""
    settings = SETTINGS.validate_python(EVERYTHING[JdbcCatalog])
    with caplog.at_level(logging.DEBUG):
        spark_conf("lake", settings)
    assert "hunter2" not in caplog.text + repr(settings)
    monkeypatch.delenv("CATALOG_SECRET")

    with pytest.raises(PermanentError, match="CATALOG_SECRET is not set"):
        spark_conf("lake", settings)
