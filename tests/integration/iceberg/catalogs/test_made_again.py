"""A table that was renamed, and another made where it lies: maintenance of the new one takes nothing of the old one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from lakewarden.executors.contract import Failed, FailureKind, Succeeded
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.instant import Service
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING
from tests.support.iceberg_rest import iceberg_rest

if TYPE_CHECKING:
    from tests.integration.conftest import Driver

pytestmark = pytest.mark.spark

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)


def _jdbc(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}").engine.dispose()
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def _rest(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    """Return a server that exchanges a credential for a token, as OAuth2 has it."""
    server = life.enter_context(iceberg_rest(folder, token="hunter2", credential="me:secret"))
    server.catalog.create_namespace("sales.eu")
    (folder / "credential").write_text("me:secret")
    return {"type": "rest", "uri": server.uri, "credential": {"file": str(folder / "credential")}}


@pytest.fixture(params=[_jdbc, _rest], ids=lambda make: make.__name__.strip("_"))
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, Any]]:
    """Return the settings of an empty catalog."""
    make: Callable[[Path, ExitStack], Mapping[str, Any]] = request.param
    with ExitStack() as life:
        yield make(tmp_path, life)


def test_a_table_made_again_where_another_lies_takes_none_of_its_files(
    driver: Driver, spark: Any, catalog: Mapping[str, Any]
) -> None:
    """Create, append, rename, make again in the same folder, remove orphans: the sequence by which tables were lost.

    The namespace is nested. A Hadoop catalog knows no rename, and drops a table with its folder.
    """
    session = spark.newSession()
    for key, value in spark_conf("lake", _SETTINGS.validate_python(catalog)).items():
        session.conf.set(key, value)
    if catalog["type"] != "rest":
        session.sql("CREATE NAMESPACE lake.sales.eu")
    _made(session, rows=5)
    first, folder = _metadata_file(session), _folder(session)
    session.sql("ALTER TABLE lake.sales.eu.trips RENAME TO sales.eu.trips_of_before")
    _made(session, rows=3)
    assert _folder(session) == folder
    _age(folder)
    before = StaticTable.from_metadata(first).scan().to_arrow().num_rows
    assert before == 5
    table = SimpleNamespace(
        assigned={
            "format": "iceberg",
            "location": "catalog://lake/sales.eu.trips",
            "catalog": catalog,
            "table_options": AT_ONCE,
        }
    )

    refused = driver.carry_out(table, Service.ORPHANS, unknown_for="0s")
    cleaned = driver.carry_out(table, Service.CLEAN, **EVERYTHING)

    assert isinstance(refused, Failed)
    assert refused.kind is FailureKind.PERMANENT
    assert "of another table" in refused.reason
    assert isinstance(cleaned, Succeeded)
    assert StaticTable.from_metadata(first).scan().to_arrow().num_rows == before
    assert session.sql("SELECT * FROM lake.sales.eu.trips").count() == 3


def _made(session: Any, *, rows: int) -> None:
    session.sql("CREATE TABLE lake.sales.eu.trips (id BIGINT) USING iceberg")
    for id_ in range(rows):
        session.sql(f"INSERT INTO lake.sales.eu.trips VALUES ({id_})")


def _metadata_file(session: Any) -> str:
    load = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    found = load(session._jsparkSession, "lake.sales.eu.trips").operations().current().metadataFileLocation()
    return re.sub(r"^file:/*", "/", str(found))


def _folder(session: Any) -> Path:
    return Path(_metadata_file(session)).parent.parent


def _age(folder: Path) -> None:
    then = time.time() - 10 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (then, then))
