"""Iceberg tables of a Hive metastore. The pointer is a parameter of the table."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from lakewarden.planners.formats.iceberg.catalogs.answers import UnansweredError
from lakewarden.planners.formats.iceberg.catalogs.hive import Metastore
from lakewarden.planners.formats.iceberg.catalogs.settings import HiveCatalog
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support.catalogs.metastore import PLAIN, MetastoreInMemory

ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://lake/orders/metadata/00001.metadata.json"}


@pytest.fixture
def server() -> Iterator[MetastoreInMemory]:
    server = MetastoreInMemory()
    server.create_database("sales")
    server.create_table("sales.orders", "s3://lake/orders", input_format=PLAIN, parameters=ICEBERG)
    server.create_table("sales.parquet", "s3://lake/parquet", input_format=PLAIN)
    yield server
    server.stop()


def _opened(uri: str) -> Metastore:
    return Metastore("lake", HiveCatalog.model_validate({"type": "hive", "uri": uri, "timeout": "2s"}))


def test_a_table_points_to_its_metadata(server: MetastoreInMemory) -> None:
    """A table of another format is refused as such."""
    metastore = _opened(server.uri)

    assert metastore.metadata_file("sales.orders") == ICEBERG["metadata_location"]
    assert metastore.tables().tables == ["sales.orders"]
    with pytest.raises(PermanentError, match=r"sales\.parquet of the catalog lake is no Iceberg table"):
        metastore.metadata_file("sales.parquet")
    with pytest.raises(PermanentError, match=r"the catalog lake has no table sales\.nothing"):
        metastore.metadata_file("sales.nothing")


def test_a_metastore_that_is_down_is_told_from_one_that_refuses(server: MetastoreInMemory) -> None:
    """The first error closes the catalog for a while. The second belongs to the requested table."""
    server.closed.add("sales")
    with pytest.raises(TemporaryError, match="no privilege on sales") as refused:
        _opened(server.uri).metadata_file("sales.orders")
    assert not isinstance(refused.value, UnansweredError)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(UnansweredError, match="the catalog lake does not answer"):
        _opened(f"thrift://127.0.0.1:{free}").metadata_file("sales.orders")
