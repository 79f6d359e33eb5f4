"""Hudi tables are found in a Hive metastore, each once, at the location that it names."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from tests.support.catalogs.metastore import PLAIN, MetastoreClient, MetastoreInMemory

SPARK = {"spark.sql.sources.provider": "hudi"}
FLINK = {"connector": "hudi"}


def known(metastore: MetastoreClient, **more: object) -> Listing:
    catalog = HiveCatalog.model_validate({"type": "hive", "uri": metastore.uri, "timeout": "5s", **more})
    return HUDI.tables_in("hms", catalog, Storages().of("catalog://hms/any.table"))


@pytest.fixture
def metastore() -> Iterator[MetastoreInMemory]:
    metastore = MetastoreInMemory()
    for database in ("sales", "web"):
        metastore.create_database(database)
    yield metastore
    metastore.stop()


def test_hudi_tables_are_told_from_others(metastore: MetastoreInMemory) -> None:
    """Spark's provider, Flink's connector, and the input format of Hudi's own sync identify them."""
    metastore.create_table("sales.by_spark", "s3a://lake/a/", input_format=PLAIN, parameters=SPARK)
    metastore.create_table("sales.by_flink", "hdfs://nn:8020/b", input_format=PLAIN, parameters=FLINK)
    metastore.create_table("web.by_sync", "s3://lake/c")
    metastore.create_table("web.old", "s3://lake/d", input_format="com.uber.hoodie.hadoop.HoodieInputFormat")
    metastore.create_table("web.parquet", "s3://lake/e", input_format=PLAIN)

    assert known(metastore) == Listing(
        tables=("sales.by_flink", "sales.by_spark", "web.by_sync", "web.old"),
        locations={
            "sales.by_flink": "hdfs://nn:8020/b",
            "sales.by_spark": "s3://lake/a",
            "web.by_sync": "s3://lake/c",
            "web.old": "s3://lake/d",
        },
    )


def test_two_views_of_one_table_are_one_table(metastore: MetastoreInMemory) -> None:
    """Two tables at one place would be two clients that know nothing of each other."""
    for name in ("orders_ro", "orders_rt"):
        metastore.create_table(f"sales.{name}", "s3a://lake/orders")
    for name in ("returns", "returns_ro", "returns_rt"):
        metastore.create_table(f"sales.{name}", "s3://lake/returns")
    metastore.create_table("web.clicks_ro", "s3://lake/clicks")
    metastore.create_table("web.orders", "s3://lake/orders/")

    listing = known(metastore)

    assert listing.locations == {
        "web.orders": "s3://lake/orders",
        "sales.returns": "s3://lake/returns",
        "web.clicks_ro": "s3://lake/clicks",
    }
    assert listing.refused == {"sales.orders": "it is the table web.orders: both are at s3://lake/orders"}


def test_a_name_that_another_table_has_is_not_taken(metastore: MetastoreInMemory) -> None:
    """The views' common name may be the name of a table at another place."""
    for name in ("orders_ro", "orders_rt"):
        metastore.create_table(f"sales.{name}", "s3://lake/orders")
    metastore.create_table("sales.orders", "s3://lake/other")

    listing = known(metastore)

    assert listing.locations == {"sales.orders": "s3://lake/other"}
    assert listing.refused == {"s3://lake/orders": "the metastore knows another table as sales.orders"}


def test_where_spark_reads_a_table_is_where_it_is(metastore: MetastoreInMemory) -> None:
    """For a table that Hive cannot read, Spark writes a placeholder as its location."""
    metastore.create_table(
        "sales.orders", "file:/w/orders-__PLACEHOLDER__", input_format=PLAIN, parameters=SPARK, path="s3a://lake/orders"
    )

    assert known(metastore).locations == {"sales.orders": "s3://lake/orders"}


def test_a_table_at_no_place_is_refused_alone(metastore: MetastoreInMemory) -> None:
    """Other clients wrote what the metastore answers."""
    for name, place in {"a": "", "b": "/", "c": "lake/c", "d": "s3://k:s@lake/d", "e": "catalog://lake/a.b"}.items():
        metastore.create_table(f"web.{name}", place)
    metastore.create_table("web.f", "s3://lake/f")
    metastore.create_table("web.g", "s3://elsewhere/g")

    listing = known(metastore, below=["s3a://lake/"])

    assert listing.tables == ("web.f",)
    assert sorted(listing.refused) == ["web.a", "web.b", "web.c", "web.d", "web.e", "web.g"]
    assert "is below none of the places" in listing.refused["web.g"]


def test_below_the_whole_disk_is_every_table_on_it(metastore: MetastoreInMemory) -> None:
    """`/` is above every local path, and above no store."""
    metastore.create_table("web.a", "file:///lake/a")
    metastore.create_table("web.b", "s3://lake/b")

    assert known(metastore, below=["/"]).tables == ("web.a",)


def test_a_database_that_cannot_be_listed_hides_no_other(metastore: MetastoreInMemory) -> None:
    """Its known tables stay, as those of every namespace do."""
    metastore.create_table("sales.orders", "s3://lake/orders")
    metastore.create_table("web.clicks", "s3://lake/clicks")
    metastore.closed.add("sales")

    listing = known(metastore)

    assert listing.tables == ("web.clicks",)
    assert list(listing.unlisted) == ["sales"]
    assert "no privilege on sales" in listing.unlisted["sales"]


def test_only_the_databases_that_are_wanted_are_listed(metastore: MetastoreInMemory) -> None:
    """Others may be forbidden, or large."""
    metastore.create_table("sales.orders", "s3://lake/orders")
    metastore.closed.add("web")

    assert known(metastore, databases=["sal*"]) == Listing(
        tables=("sales.orders",), locations={"sales.orders": "s3://lake/orders"}
    )


def test_many_tables_are_asked_for_in_pieces(metastore: MetastoreInMemory) -> None:
    """No answer is as large as a database may be."""
    for number in range(450):
        metastore.create_table(f"sales.t{number:03}", f"s3://lake/t{number:03}")

    assert len(known(metastore).tables) == 450


def test_a_metastore_that_does_not_answer_tells_nothing(metastore: MetastoreInMemory, tmp_path: Path) -> None:
    """The answer is not that there are no tables. The next one of several is asked."""
    metastore.create_table("sales.orders", "s3://lake/orders")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        both = HiveCatalog.model_validate({"type": "hive", "uri": f"{nobody},{metastore.uri}", "timeout": "300ms"})
        assert HUDI.tables_in("hms", both, Storages().of("catalog://hms/any.table")).tables == ("sales.orders",)
        with pytest.raises(TemporaryError, match="the catalog hms does not answer"):
            known(metastore, uri=nobody, timeout="300ms")


def test_a_server_that_speaks_something_else_is_no_metastore() -> None:
    """The answer announces gigabytes, and is refused."""
    import threading  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"\x80\x01\x00\x02\x7f\xff\xff\xff" + b"x" * 64)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        liar = MetastoreClient(server.getsockname()[1])
        with pytest.raises(TemporaryError, match="the catalog hms does not answer"):
            known(liar)


@pytest.mark.parametrize("wrong", [{"uri": "http://x"}, {"below": ["lake"]}, {"timeout": 3}, {"kerberos": "x"}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    """They are refused when the configuration is read."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        HiveCatalog.model_validate({"type": "hive", "uri": "thrift://x:9083", **wrong})
