"""The pointer that is read without a JVM is the one that Iceberg has committed, in every kind of catalog. It moves with
each commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import Storages, canonical_location
from tests.support.catalogs.iceberg_rest import iceberg_rest

pytestmark = pytest.mark.spark

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)


def _hadoop(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    return {"type": "hadoop", "warehouse": f"file://{folder}/warehouse"}


def _jdbc(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}").engine.dispose()
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def _renamed_jdbc(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    return {**_jdbc(folder, life), "catalog_name": "prod"}


def _rest(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    server = life.enter_context(iceberg_rest(folder, token="hunter2"))
    (folder / "token").write_text("hunter2")
    return {"type": "rest", "uri": server.uri, "token": {"file": str(folder / "token")}}


@pytest.fixture(params=[_hadoop, _jdbc, _renamed_jdbc, _rest], ids=lambda make: make.__name__.strip("_"))
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Return the settings of an empty catalog."""
    make: Callable[[Path, ExitStack], Mapping[str, Any]] = request.param
    with ExitStack() as life:
        yield _SETTINGS.validate_python(make(tmp_path, life))


def test_the_pointer_is_what_spark_committed(catalog: Any, spark: Any) -> None:
    """Both readers obey the same settings. Otherwise one of them would see another table."""
    session = spark.newSession()
    conf = spark_conf("lake", catalog)
    for key, value in conf.items():
        session.conf.set(key, value)
    (name,) = {key.split(".")[3] for key in conf}
    if catalog.type != "rest":
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.sales")
    session.sql(f"CREATE TABLE {name}.sales.orders (id BIGINT) USING iceberg")
    location, storages = "catalog://lake/sales.orders", Storages()
    table = Table(id=TableId("orders"), format="iceberg", location=location, catalog=catalog)
    pointers, seen = Pointers(), []

    for number in range(3):
        session.sql(f"INSERT INTO {name}.sales.orders VALUES ({number})")
        seen.append(pointers.of(table, storages.of(location)).metadata_file)
        loaded = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            session._jsparkSession, f"{name}.sales.orders"
        )
        committed = str(loaded.operations().current().metadataFileLocation())
        assert canonical_location(seen[-1]) == canonical_location(committed)

    assert len(set(seen)) == 3
    assert pointers.tables("lake", catalog, storages.of(location)).tables == ["sales.orders"]
