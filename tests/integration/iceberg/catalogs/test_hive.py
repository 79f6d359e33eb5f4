"""The pointer of a table in a real Hive metastore, from the jars that PySpark brings, on its own database."""

from __future__ import annotations

import copy
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.hive import HiveCatalog as Writer
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.demo.daemon import free_port
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import Storages
from tests.support.catalogs.metastore import RealMetastore

pytestmark = [pytest.mark.spark, pytest.mark.faults]

ROWS = pa.table({"id": [1, 2, 3]})
_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a metastore, and return its address."""
    started = RealMetastore(tmp_path_factory.mktemp("metastore"))
    try:
        started.wait()
        yield started.uri
    finally:
        started.stop()


class _Asker:
    def __init__(self, **settings: Any) -> None:
        self.settings = _SETTINGS.validate_python({"type": "hive", "timeout": "20s", **settings})
        self.storage = Storages().of("catalog://hive/any.table")

    def where(self, identifier: str) -> str:
        table = Table(id=TableId("t"), format="iceberg", location=f"catalog://hive/{identifier}", catalog=self.settings)
        return Pointers().of(table, self.storage).metadata_file

    def tables(self) -> list[str]:
        return list(Pointers().tables("hive", self.settings, self.storage).tables)


def _catalog_of_files(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("files", uri=f"sqlite:///{folder}/files.db", warehouse=f"file://{folder}/files")
    catalog.create_namespace("sales")
    return catalog


def test_the_pointer_is_what_was_committed(metastore: str, tmp_path: Path) -> None:
    """It moves with each commit. A table of another format and a missing table have none, and are not listed.

    A metastore that was set up without its transactions grants no lock. So the commits are made in another catalog, and
    the pointer is altered here as Iceberg's `HiveTableOperations` does it.
    """
    writer, elsewhere = Writer("any", uri=metastore, warehouse=f"file://{tmp_path}"), _catalog_of_files(tmp_path)
    writer.create_namespace("sales")
    first, asker = writer.create_table("sales.orders", ROWS.schema), _Asker(uri=metastore)
    assert asker.where("sales.orders") == first.metadata_location
    orders = elsewhere.create_table("sales.orders", ROWS.schema)
    for _ in range(2):
        orders.append(ROWS)
        with writer._client as client:
            row = client.get_table("sales", "orders")
            row.parameters["metadata_location"] = orders.metadata_location
            client.alter_table("sales", "orders", row)
        assert asker.where("sales.orders") == orders.metadata_location
    with writer._client as client:
        plain = copy.deepcopy(client.get_table("sales", "orders"))
        plain.tableName, plain.parameters = "plain", {"EXTERNAL": "TRUE"}
        client.create_table(plain)

    with pytest.raises(PermanentError, match=r"sales\.plain of the catalog hive is not an Iceberg table"):
        asker.where("sales.plain")
    with pytest.raises(PermanentError, match=r"the catalog hive has no table sales\.returns"):
        asker.where("sales.returns")
    assert asker.tables() == ["sales.orders"]


def test_another_metastore_answers_where_one_is_down(metastore: str) -> None:
    """They are separated by commas. If none of them is up, the error is temporary and names the catalog."""
    down = f"thrift://127.0.0.1:{free_port()}"

    assert isinstance(_Asker(uri=f"{down},{metastore}").tables(), list)
    with pytest.raises(TemporaryError, match="the catalog hive does not answer"):
        _Asker(uri=down).tables()


def test_a_metastore_that_falls_silent_is_given_up() -> None:
    """It accepts the connection and never answers."""
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(TemporaryError, match="the catalog hive does not answer"),
    ):
        _Asker(uri=f"thrift://127.0.0.1:{mute.getsockname()[1]}", timeout="300ms").tables()
