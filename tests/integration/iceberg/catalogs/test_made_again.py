"""A table was renamed, and another one created in its folder. Services of each of them delete no file of the other
one.
"""

from __future__ import annotations

import os
import re
import shutil
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
from pyspark.errors import PySparkException

from lakewarden.executors.contract import Failed, FailureKind, Succeeded, Yielded
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.instant import Service
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)


def _jdbc(folder: Path, life: ExitStack, _: pytest.FixtureRequest) -> Mapping[str, Any]:
    SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}").engine.dispose()
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def _hive(folder: Path, _: ExitStack, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return a metastore that grants the locks by which Iceberg commits."""
    uri = request.getfixturevalue("metastore").uri
    return {"type": "hive", "uri": uri, "warehouse": f"file://{folder}/warehouse"}


def _rest(folder: Path, life: ExitStack, _: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return a server that exchanges a credential for a token, as OAuth2 has it."""
    server = life.enter_context(iceberg_rest(folder, token="hunter2", credential="me:secret"))
    server.catalog.create_namespace("sales.eu")
    (folder / "credential").write_text("me:secret")
    return {"type": "rest", "uri": server.uri, "credential": {"file": str(folder / "credential")}}


@pytest.fixture(params=[_jdbc, _rest, _hive], ids=["jdbc", "rest", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, Any]]:
    """Return the settings of an empty catalog."""
    make: Callable[[Path, ExitStack, pytest.FixtureRequest], Mapping[str, Any]] = request.param
    with ExitStack() as life:
        yield make(tmp_path, life, request)


class _Shop:
    """A namespace of a catalog in a session of Spark, nested if the catalog has such."""

    def __init__(self, spark: Any, catalog: Mapping[str, Any]) -> None:
        self._session = spark.newSession()
        self._catalog = catalog
        self.namespace = "sales_made_again" if catalog["type"] == "hive" else "sales.eu"
        for key, value in spark_conf("lake", _SETTINGS.validate_python(catalog)).items():
            self._session.conf.set(key, value)
        if catalog["type"] != "rest":
            self.sql(f"CREATE NAMESPACE lake.{self.namespace}")

    def sql(self, statement: str) -> Any:
        return self._session.sql(statement)

    def create(self, *, rows: int, folder: Path | None = None) -> None:
        place = "" if folder is None else f" LOCATION '{folder}'"
        self.sql(f"CREATE TABLE lake.{self.namespace}.trips (id BIGINT) USING iceberg{place}")
        for id_ in range(rows):
            self.sql(f"INSERT INTO lake.{self.namespace}.trips VALUES ({id_})")

    def rename(self, to: str = "trips_of_before") -> None:
        self.sql(f"ALTER TABLE lake.{self.namespace}.trips RENAME TO {self.namespace}.{to}")

    def count(self, table: str = "trips") -> int:
        found: int = self.sql(f"SELECT * FROM lake.{self.namespace}.{table}").count()
        return found

    def metadata_file(self) -> str:
        load = self._session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
        loaded = load(self._session._jsparkSession, f"lake.{self.namespace}.trips")
        return re.sub(r"^file:/*", "/", str(loaded.operations().current().metadataFileLocation()))

    def folder(self) -> Path:
        return Path(self.metadata_file()).parent.parent

    def assigned(self, table: str = "trips") -> Any:
        """Return a table as it is assigned to a run."""
        return _assigned(f"catalog://lake/{self.namespace}.{table}", catalog=self._catalog)


def _assigned(location: str, **more: Any) -> Any:
    return SimpleNamespace(assigned={"format": "iceberg", "location": location, "table_options": AT_ONCE, **more})


def test_a_table_made_again_where_another_lies_takes_none_of_its_files(
    driver: Driver, spark: Any, catalog: Mapping[str, Any]
) -> None:
    """The steps are create, append, rename, create again in the same folder, remove orphans. By these steps tables were
    lost.

    Orphans are refused for both tables. Each of them is cleaned, and has all its rows afterwards.
    """
    shop = _Shop(spark, catalog)
    shop.create(rows=5)
    first, folder = shop.metadata_file(), shop.folder()
    shop.rename()
    shop.create(rows=3)
    assert shop.folder() == folder
    _age(folder)

    for table in ("trips", "trips_of_before"):
        refused = driver.carry_out(shop.assigned(table), Service.ORPHANS, unknown_for="0s")
        cleaned = driver.carry_out(shop.assigned(table), Service.CLEAN, **EVERYTHING)

        assert isinstance(refused, Failed)
        assert refused.kind is FailureKind.PERMANENT
        assert "of another table" in refused.reason
        assert isinstance(cleaned, Succeeded)
        assert (shop.count(), shop.count("trips_of_before")) == (3, 5)
    assert StaticTable.from_metadata(first).scan().to_arrow().num_rows == 5


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    """Return a server with a namespace, and the secret that it asks for in a file beside its tables."""
    (tmp_path / "credential").write_text("me:secret")
    with iceberg_rest(tmp_path, token="hunter2", credential="me:secret") as server:
        server.catalog.create_namespace("sales.eu")
        yield server


def _shop_of(server: IcebergRest, spark: Any, folder: Path) -> _Shop:
    return _Shop(spark, {"type": "rest", "uri": server.uri, "credential": {"file": str(folder / "credential")}})


def test_a_renamed_table_is_cleaned_though_its_old_name_was_just_asked_for(
    driver: Driver, spark: Any, rest: IcebergRest, tmp_path: Path
) -> None:
    """The old name leads to a new table by now, and a run on a third table has asked for its uuid before."""
    shop = _shop_of(rest, spark, tmp_path)
    shop.create(rows=2)
    shop.rename("asking")
    shop.create(rows=2, folder=tmp_path / "renamed")
    assert isinstance(driver.carry_out(shop.assigned("asking"), Service.CLEAN, **EVERYTHING), Succeeded)
    shop.rename()
    shop.create(rows=1, folder=tmp_path / "another")

    outcome = driver.carry_out(shop.assigned("trips_of_before"), Service.CLEAN, **EVERYTHING)

    assert isinstance(outcome, Succeeded), outcome


@pytest.mark.parametrize(
    ("service", "options"), [(Service.CLEAN, EVERYTHING), (Service.ORPHANS, {"unknown_for": "0s"})]
)
def test_a_table_that_is_renamed_during_a_run_does_not_meet_itself_as_a_copy(
    driver: Driver,
    spark: Any,
    rest: IcebergRest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: Service,
    options: Mapping[str, Any],
) -> None:
    """The rename comes between the opening of the run and its listing of the catalog."""
    shop = _shop_of(rest, spark, tmp_path)
    shop.create(rows=3)
    (shop.folder() / "data" / "00000-9-3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21-00001.parquet").write_bytes(b"lost")
    _age(shop.folder())
    assigned, listed = shop.assigned(), rest.catalog.list_tables

    def renaming(namespace: Any) -> Any:
        monkeypatch.undo()
        rest.catalog.rename_table("sales.eu.trips", "sales.eu.trips_of_before")
        return listed(namespace)

    monkeypatch.setattr(rest.catalog, "list_tables", renaming)

    outcome = driver.carry_out(assigned, service, **options)

    assert isinstance(outcome, Yielded)
    assert "was renamed to sales.eu.trips_of_before during the run" in outcome.reason
    assert shop.count("trips_of_before") == 3


def test_a_folder_of_a_hadoop_catalog_that_was_moved_away_takes_no_file_of_the_table_in_its_place(
    driver: Driver, spark: Any, tmp_path: Path
) -> None:
    """A Hadoop catalog knows no rename, so people move the folder. Its metadata still names the files in the old place,
    where another table lies by now. A lost file of that table is deleted, and nothing else.
    """
    shop = _Shop(spark, {"type": "hadoop", "warehouse": f"file://{tmp_path}/warehouse"})
    shop.create(rows=5)
    with pytest.raises(PySparkException, match="Cannot rename"):
        shop.rename()
    folder, moved = shop.folder(), shop.folder().with_name("trips_of_before")
    shutil.move(folder, moved)
    shop.create(rows=3)
    lost = folder / "data" / "00000-9-3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21-00001.parquet"
    lost.write_bytes(b"lost")
    for one in (folder, moved):
        _age(one)
    before = _files(moved)

    for service, options in ((Service.ORPHANS, {"unknown_for": "0s"}), (Service.CLEAN, EVERYTHING)):
        refused = driver.carry_out(_assigned(str(moved)), service, **options)
        done = driver.carry_out(shop.assigned(), service, **options)

        assert isinstance(refused, Failed)
        assert isinstance(done, Succeeded)
        assert (_files(moved), shop.count(), lost.exists()) == (before, 3, False)


def test_a_copied_folder_in_a_hadoop_catalog_holds_the_orphans_of_its_original_back(
    driver: Driver, spark: Any, tmp_path: Path
) -> None:
    """The copy still names the files of the original. It may need one that the original does not."""
    shop = _Shop(spark, {"type": "hadoop", "warehouse": f"file://{tmp_path}/warehouse"})
    shop.create(rows=3)
    folder = shop.folder()
    shutil.copytree(folder, folder.with_name("trips_of_before"))
    lost = folder / "data" / "00000-9-3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21-00001.parquet"
    lost.write_bytes(b"lost")
    _age(folder)

    outcome = driver.carry_out(shop.assigned(), Service.ORPHANS, unknown_for="0s")

    assert isinstance(outcome, Failed)
    assert "trips_of_before of the same catalog keeps its files in" in outcome.reason
    assert lost.exists()


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _age(folder: Path) -> None:
    then = time.time() - 10 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (then, then))
