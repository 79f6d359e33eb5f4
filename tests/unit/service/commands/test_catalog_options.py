"""A first configuration names the lock that the tables of a metastore name in their properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.cli.options import Code
from lakewarden.planners.model.table import Table
from lakewarden.service.config.loading import load
from tests.support.catalogs.metastore import PLAIN, MetastoreInMemory

PROVIDER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"


@pytest.fixture
def metastore() -> Iterator[MetastoreInMemory]:
    """Return a metastore with two databases."""
    made = MetastoreInMemory()
    for database in ("sales", "web"):
        made.create_database(database)
    yield made
    made.stop()


def a_table(metastore: MetastoreInMemory, name: str, *, lock_key: str | None) -> None:
    """Make a table of Spark SQL, with a lock in its TBLPROPERTIES if it has a key."""
    lock = {
        "hoodie.write.lock.provider": PROVIDER,
        "hoodie.write.lock.zookeeper.url": "zk:2181",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.lock_key": lock_key or "",
    }
    parameters = {"spark.sql.sources.provider": "hudi", **(lock if lock_key else {})}
    metastore.create_table(name, f"s3://lake/{name}", input_format=PLAIN, parameters=parameters)


def first_table(metastore: MetastoreInMemory, file: Path) -> Table:
    """Write a first configuration, and return the table `sales.orders` as the daemon would register it."""
    assert main(["init", metastore.uri, "--output", str(file)]) == Code.DONE
    (pattern,) = load(file).discover
    return pattern.table("sales.orders", location="s3://lake/sales.orders")


@pytest.mark.parametrize("key", ["{0}.{1}", "{0}/{1}", "{1}"])
def test_the_lock_of_the_tables_properties_is_that_of_each_table(
    tmp_path: Path, metastore: MetastoreInMemory, key: str
) -> None:
    """Keys that differ by the names of the tables become one template."""
    for name in ("sales.orders", "sales.returns", "web.clicks"):
        a_table(metastore, name, lock_key=key.format(*name.split(".")))
    lock = first_table(metastore, tmp_path / "lakewarden.yaml").options.lock
    assert (lock.url, lock.base_path, lock.lock_key) == ("zk:2181", "/hudi", key.format("sales", "orders"))


def test_tables_that_name_different_locks_leave_the_choice_to_an_operator(
    tmp_path: Path, metastore: MetastoreInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lock that is not that of the writers would never be proved. Each is printed, with how many tables name it."""
    a_table(metastore, "sales.orders", lock_key="orders")
    a_table(metastore, "web.clicks", lock_key="something")
    assert first_table(metastore, tmp_path / "lakewarden.yaml").options.lock is None
    said = capsys.readouterr().err
    assert "the hudi tables name 2 sets of options in their catalog, so none is written" in said
    assert "something" in said


def test_tables_without_such_properties_name_no_lock(tmp_path: Path, metastore: MetastoreInMemory) -> None:
    """Nothing is made up."""
    a_table(metastore, "sales.orders", lock_key=None)
    assert first_table(metastore, tmp_path / "lakewarden.yaml").options.lock is None
