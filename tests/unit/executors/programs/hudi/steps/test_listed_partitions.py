"""A table's partitions are found in a metastore by their locations, and removed there without their files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden.executors.programs.hudi.steps.listings import ListedPartitions
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support.catalogs.metastore import PLAIN, MetastoreInMemory

PLACE = "s3://lake/orders"


@pytest.fixture
def metastore() -> Iterator[MetastoreInMemory]:
    metastore = MetastoreInMemory()
    metastore.create_database("sales")
    yield metastore
    metastore.stop()


def _listed(metastore: MetastoreInMemory) -> ListedPartitions:
    options = CatalogSyncOptions.model_validate(
        {"uri": metastore.uri, "database": "sales", "table": "orders", "timeout": "5s"}
    )
    return ListedPartitions(options, PLACE)


def test_a_table_is_kept_up_under_each_of_its_names(metastore: MetastoreInMemory) -> None:
    """They are not removed under other names, for another table may have the name of a view."""
    metastore.create_table("sales.orders", "s3a://lake/orders/")
    metastore.create_table("sales.orders_ro", PLACE)
    metastore.create_table("sales.orders_rt", "s3://lake/elsewhere")

    assert _listed(metastore).tables() == ["orders", "orders_ro"]


def test_what_a_partition_is_called_does_not_matter(metastore: MetastoreInMemory) -> None:
    """Every extractor makes its own names and escapes some characters. The answer has no order."""
    metastore.create_table("sales.orders", PLACE)
    paths = {"2026-01-01": "2026/01/01", "a=b/c%": "day=a%3Db%2Fc%25", "Zürich": "day=Zürich", "x": "x"}
    for value, path in paths.items():
        metastore.add_partition("sales.orders", value, f"s3a://lake/orders/{path}")
    metastore.add_partition("sales.orders", "moved", "s3://lake/orders2/x")
    metastore.add_partition("sales.orders", "nowhere", "")

    found = _listed(metastore).partitions("orders", {*paths.values(), "orders2/x", ""} - {"x"})

    assert found == {
        "day=2026-01-01": "2026/01/01",
        "day=a%3Db%2Fc%25": "day=a%3Db%2Fc%25",
        "day=Zürich": "day=Zürich",
    }


def test_partitions_go_in_one_act_and_no_file_with_them(metastore: MetastoreInMemory) -> None:
    """This also holds if a partition is gone already, as after a writer's own sync."""
    metastore.create_table("sales.orders", PLACE)
    for value in ("1", "2", "3"):
        metastore.add_partition("sales.orders", value, f"{PLACE}/{value}")

    _listed(metastore).drop("orders", ["day=1", "day=gone", "day=3"])
    _listed(metastore).drop("orders", [])

    assert list(metastore.partitions["sales", "orders"]) == ["day=2"]
    [request] = metastore.dropped
    assert (request.deleteData, request.ifExists) == (False, True)


def test_a_place_without_the_table_is_told_from_one_with_another(metastore: MetastoreInMemory) -> None:
    """An empty place may still be synced into. The other one is a wrong name, and nothing of that table changes."""
    with pytest.raises(TemporaryError, match=r"sales\.orders at thrift://.* is missing"):
        _listed(metastore).tables()
    metastore.create_table("sales.orders", "s3://lake/other")
    with pytest.raises(PermanentError, match="is at 's3://lake/other', and not this table"):
        _listed(metastore).tables()
    metastore.drop_table("sales.orders")
    metastore.create_table("sales.orders", PLACE, input_format=PLAIN)
    with pytest.raises(PermanentError, match="is not a Hudi table"):
        _listed(metastore).tables()


def test_a_metastore_that_is_away_is_temporary_trouble(metastore: MetastoreInMemory) -> None:
    """The request is repeated until it answers."""
    metastore.stop()
    options = CatalogSyncOptions.model_validate(
        {"uri": "thrift://127.0.0.1:1", "database": "sales", "table": "orders", "timeout": "300ms"}
    )
    with pytest.raises(TemporaryError, match=r"sales\.orders at thrift://127\.0\.0\.1:1 does not answer"):
        ListedPartitions(options, PLACE).tables()
