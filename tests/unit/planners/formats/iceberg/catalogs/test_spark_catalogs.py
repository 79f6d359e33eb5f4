"""One table of settings for two readers: the settings of a catalog reach the reader without Spark and the Spark that
commits.
"""

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
WITHOUT_SPARK = {"timeout", "requests_at_once", "compares_pointers"}
"""For requests that Spark does not make, and for our own judgement."""

SIGNED: dict[str, Any] = {
    "type": "rest",
    "uri": "https://catalog:8181",
    "access": "vended",
    "sigv4": {
        "service": "glue",
        "region": "eu-central-1",
        "access_key": {"env": "CATALOG_SECRET"},
        "secret_key": {"env": "CATALOG_SECRET"},
    },
}
"""Settings of a REST catalog that exclude others."""

FOR_NEW_TABLES = {"warehouse"}
"""The place of new tables, which a reader of rows or of a metastore does not need."""

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
        "access": "storage",
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
        "compares_pointers": True,
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
    """If Spark ignored a setting, it would commit to another place than the one that is observed."""
    written = EVERYTHING[kind]
    tried = set(written) | set(SIGNED if kind is RestCatalog else ())
    assert tried == set(kind.model_fields), "a new setting must be tried here"
    conf = spark_conf("lake", SETTINGS.validate_python(written))
    said = [*conf.values(), *(key.split(".")[3] for key in conf)]

    for key, value in written.items():
        if key not in WITHOUT_SPARK | {"properties", "access"}:
            assert any(_spelled(value) in one for one in said), key
    name = written.get("catalog_name", "lake")
    assert conf[f"spark.sql.catalog.{name}"] == "org.apache.iceberg.spark.SparkCatalog"
    assert conf[f"spark.sql.catalog.{name}.a"] == "b"
    assert conf[f"spark.sql.catalog.{name}.cache-enabled"] == "false"
    assert conf[f"spark.sql.catalog.{name}.type"] == written["type"]


def test_a_signed_catalog_that_hands_out_credentials_reaches_spark_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg signs its requests by the same settings, asks for credentials, and has no cache of tables."""
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    start = "spark.sql.catalog.lake."
    said = spark_conf("lake", SETTINGS.validate_python(SIGNED))
    conf = {key.removeprefix(start): value for key, value in said.items()}

    assert conf["rest.sigv4-enabled"] == "true"
    assert (conf["rest.signing-name"], conf["rest.signing-region"]) == ("glue", "eu-central-1")
    assert (conf["rest.access-key-id"], conf["rest.secret-access-key"]) == ("hunter2", "hunter2")
    assert conf["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert conf["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert conf["rest-table-cache.max-entries"] == "0"
    assert conf["client.region"] == "eu-north-1"


def test_our_own_credentials_are_those_of_hadoop() -> None:
    """By default Iceberg takes its own client of S3 if that is on the class path. That one ignores `storage`."""
    conf = spark_conf("lake", SETTINGS.validate_python(EVERYTHING[RestCatalog]))

    assert conf["spark.sql.catalog.lake.io-impl"] == "org.apache.iceberg.hadoop.HadoopFileIO"
    assert not any("Delegation" in key or "sigv4" in key for key in conf)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"properties": {"header.x-iceberg-access-delegation": "vended-credentials"}}, "set access: vended"),
        ({"properties": {"rest.signing-name": "glue"}}, "set sigv4"),
        ({"sigv4": SIGNED["sigv4"], "token": {"env": "CATALOG_SECRET"}}, "sigv4 takes the place of token"),
        ({"sigv4": {"service": "glue", "region": "x", "access_key": {"env": "A"}}}, "give both or none"),
        ({"access": "remote"}, "'storage' or 'vended'"),
    ],
)
def test_two_ways_of_saying_it_are_refused(more: dict[str, Any], says: str) -> None:
    """Otherwise the observer and Spark would do different things."""
    with pytest.raises(ValueError, match=says):
        SETTINGS.validate_python({"type": "rest", "uri": "http://catalog", **more})


def test_every_setting_reaches_the_reader_of_rows() -> None:
    """These are the address, the user and the catalog's name, the encryption, and the time-out."""
    reader = jdbc.JdbcRows("lake", SETTINGS.validate_python(EVERYTHING[JdbcCatalog]))
    url = reader._rows._engine.url

    assert (url.host, url.port, url.database) == ("db", 5433, "iceberg")
    assert (url.username, url.password) == ("warden", "hunter2")
    assert reader._key == "prod"
    _, arguments = reader._rows._engine.dialect.create_connect_args(url)
    assert arguments["host"] == "db"
    assert reader._rows._engine.pool._timeout == 3  # type: ignore[attr-defined]
    assert reader._rows._engine.pool.size() == 7  # type: ignore[attr-defined]


def test_every_setting_reaches_the_client_of_rest() -> None:
    """These are all that the server may need, in pyiceberg's words."""
    properties = rest._properties(SETTINGS.validate_python(EVERYTHING[RestCatalog]))

    assert properties == {
        "uri": "https://catalog:8181", "warehouse": "lake", "token": "hunter2", "credential": "hunter2",
        "oauth2-server-uri": "https://login/token", "scope": "ALL", "a": "b", "lakewarden.timeout-seconds": "3.0",
        "lakewarden.requests-at-once": "7",
    }  # fmt: skip


def test_a_writers_database_is_left_as_it_is() -> None:
    """Otherwise Iceberg would create missing tables, and alter those of its first schema."""
    conf = spark_conf("lake", SETTINGS.validate_python(EVERYTHING[JdbcCatalog]))

    assert conf["spark.sql.catalog.prod.jdbc.init-catalog-tables"] == "false"
    assert not any("schema-version" in key for key in conf)


def test_what_the_owner_says_counts_more() -> None:
    """The owner's property may be meant to replace the default."""
    settings = {**EVERYTHING[HiveCatalog], "properties": {"cache-enabled": "true", "clients": "4"}}
    conf = spark_conf("lake", SETTINGS.validate_python(settings))

    assert (conf["spark.sql.catalog.lake.cache-enabled"], conf["spark.sql.catalog.lake.clients"]) == ("true", "4")


def test_a_missing_secret_is_named_and_a_given_one_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The message names the place of the secret. The log contains no secret."""
    settings = SETTINGS.validate_python(EVERYTHING[JdbcCatalog])
    with caplog.at_level(logging.DEBUG):
        spark_conf("lake", settings)
    assert "hunter2" not in caplog.text + repr(settings)
    monkeypatch.delenv("CATALOG_SECRET")

    with pytest.raises(PermanentError, match="CATALOG_SECRET is not set"):
        spark_conf("lake", settings)
