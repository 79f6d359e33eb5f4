"""Iceberg tables of a Hive metastore. The pointer is a parameter of the table."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg.catalogs.answers import UnansweredError
from lakewarden.planners.formats.iceberg.catalogs.hive import Metastore
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog, HiveCatalog, without_locks
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
    with pytest.raises(PermanentError, match=r"sales\.parquet of the catalog lake is not an Iceberg table"):
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


# Tables of a Hive metastore to which clients commit without locks.

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
OF_A_TABLE, OF_A_CLIENT = "engine.hive.lock-enabled", "hadoop.iceberg.engine.hive.lock-enabled"


def hive(**more: Any) -> Any:
    return _SETTINGS.validate_python({"type": "hive", "uri": "thrift://metastore:9083", **more})


@pytest.mark.parametrize(
    ("of_a_table", "of_our_catalog", "of_the_jvm", "blocked"),
    [
        (None, None, None, False),
        ("true", "false", "false", False),
        ("TRUE", None, None, False),
        ("false", "true", None, True),
        ("no", None, None, True),  # Iceberg takes any other word for false
        (None, "false", None, True),
        (None, None, "false", True),
        (None, "true", "false", False),
        (None, " False ", None, True),
        (None, "no", None, False),  # and Hadoop's configuration for its default
    ],
)
def test_a_table_without_locks_is_blocked_unless_the_metastore_compares_pointers(
    of_a_table: str | None, of_our_catalog: str | None, of_the_jvm: str | None, blocked: bool
) -> None:
    """The table comes first, then the settings of our catalog, then those of the JVM. The reason names the setting."""
    properties = {} if of_a_table is None else {OF_A_TABLE: of_a_table}
    given = {} if of_our_catalog is None else {OF_A_CLIENT: of_our_catalog}

    found = without_locks(properties, hive(properties=given), client=of_the_jvm)

    assert (found is not None) is blocked
    if found is not None:
        assert "engine.hive.lock-enabled=false" in found.reason
        assert found.reason.startswith("the table" if of_a_table is not None else "our client")
        assert "compares_pointers: true" in found.remedy
    comparing = hive(properties=given, compares_pointers=True)
    assert without_locks(properties, comparing, client=of_the_jvm) is None


def test_only_hive_catalogs_take_locks_of_a_metastore() -> None:
    """The property means nothing in another catalog, and stays when a table moves there."""
    properties = {OF_A_TABLE: "false"}
    rest = _SETTINGS.validate_python({"type": "rest", "uri": "http://catalog:8181"})

    assert without_locks(properties, rest, client="false") is None
    assert without_locks(properties, None) is None
