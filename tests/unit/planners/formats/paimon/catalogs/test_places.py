"""Paimon tables are found by their names: in a warehouse, in a Hive metastore and in a database. No JVM is needed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.formats.paimon import PaimonFormat
from lakewarden.planners.formats.paimon.catalogs import metastore as by_metastore
from lakewarden.planners.formats.paimon.catalogs.places import DOWN_FOR_SECONDS, KNOWN_FOR_SECONDS, Places
from lakewarden.planners.formats.paimon.catalogs.settings import Catalog, commits_under_lock, core_options
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from tests.support.catalogs.metastore import PLAIN, MetastoreInMemory
from tests.support.paimon.paimon_table import PaimonTable

SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
PAIMON_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
STORAGE = Storages().of("catalog://lake/any.table")


@pytest.fixture
def metastore() -> Iterator[MetastoreInMemory]:
    metastore = MetastoreInMemory()
    metastore.create_database("sales")
    yield metastore
    metastore.stop()


def catalog(**settings: Any) -> Any:
    return SETTINGS.validate_python(settings)


def named(identifier: str, settings: Any) -> Table:
    return Table(
        id=TableId(identifier), format="paimon", location=f"catalog://lake/{identifier}", catalog=settings, policies={}
    )


def place(identifier: str, settings: Any, *, places: Places | None = None) -> str:
    return (places or Places()).placed(named(identifier, settings)).location


def tables(settings: Any) -> Listing:
    return PaimonFormat().tables_in("lake", settings, STORAGE)


def database(folder: Path, *rows: tuple[str, str, str]) -> Any:
    """Make a database as Paimon's `JdbcUtils` does, and return the catalog."""
    with sqlite3.connect(folder / "catalog.db") as made:
        made.execute(
            "CREATE TABLE IF NOT EXISTS paimon_tables(catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) "
            "NOT NULL, table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name))"
        )
        made.executemany("INSERT INTO paimon_tables VALUES (?, ?, ?)", rows)
    made.close()
    return catalog(type="jdbc", uri=f"jdbc:sqlite:{folder}/catalog.db", warehouse=str(folder / "warehouse"))


def observed_at(table_format: PaimonFormat, table: Table, clock: ManualClock) -> TableIdentity | None:
    return table_format.observe(table, STORAGE, None, now=clock.now()).view.identity


def test_a_warehouse_tells_the_folder_by_the_name(tmp_path: Path) -> None:
    """`FileSystemCatalog` keeps a table in `<warehouse>/<database>.db/<table>`. No other folder is a table."""
    PaimonTable(tmp_path / "sales.db" / "orders")
    (tmp_path / "sales.db" / "no_table").mkdir()
    (tmp_path / "plain" / "folder").mkdir(parents=True)
    warehouse = catalog(type="filesystem", warehouse=str(tmp_path))
    assert place("sales.orders", warehouse) == f"{tmp_path}/sales.db/orders"
    assert tables(warehouse) == Listing(tables=["sales.orders"])


def test_a_view_tells_the_folder_of_a_table_that_a_catalog_names_with_links_resolved(tmp_path: Path) -> None:
    """Two names of one folder have the same folder. A table that is named by its folder tells none."""
    table = PaimonTable(tmp_path / "sales.db" / "orders")
    (tmp_path / "sales.db" / "link").symlink_to(table.folder)
    warehouse = catalog(type="filesystem", warehouse=str(tmp_path))

    def folder(location: str) -> str:
        named = Table(id=TableId("orders"), format="paimon", location=location, catalog=warehouse)
        return PaimonFormat().observe(named, STORAGE, None, now=ManualClock().now()).view.folder

    assert folder("catalog://lake/sales.orders") == folder("catalog://lake/sales.link") == str(table.folder)
    assert not folder(str(table.folder))


def test_a_warehouse_that_looks_empty_forgets_no_table(tmp_path: Path) -> None:
    """A disk that is not mounted is an empty folder. A missing folder is an error of the configuration."""
    with pytest.raises(TemporaryError, match="is it mounted"):
        tables(catalog(type="filesystem", warehouse=str(tmp_path)))
    with pytest.raises(PermanentError, match="has no folder"):
        tables(catalog(type="filesystem", warehouse=str(tmp_path / "none")))


def test_a_metastore_tells_the_folder_of_a_paimon_table_alone(metastore: MetastoreInMemory) -> None:
    """The input format and `table_type` identify a table of Paimon. Others are no tables of this catalog."""
    metastore.create_table("sales.orders", "file:/lake/anywhere/orders", input_format=PAIMON_FORMAT)
    metastore.create_table("sales.items", "/lake/items", input_format=PLAIN, parameters={"table_type": "PAIMON"})
    metastore.create_table("sales.hudi", "/lake/hudi")
    hive = catalog(type="hive", uri=metastore.uri)
    assert tables(hive) == Listing(tables=["sales.items", "sales.orders"])
    assert place("sales.orders", hive) == "/lake/anywhere/orders"
    with pytest.raises(PermanentError, match=r"sales\.hudi of the catalog lake is not a Paimon table"):
        place("sales.hudi", hive)
    with pytest.raises(PermanentError, match=r"has no table sales\.none"):
        place("sales.none", hive)


def test_a_folder_in_the_properties_of_a_table_counts_if_the_catalog_says_so(metastore: MetastoreInMemory) -> None:
    """With `location-in-properties` the metastore's own location is a folder of Hive's."""
    metastore.create_table(
        "sales.orders", "/hive/orders", input_format=PAIMON_FORMAT, parameters={"paimon_location": "s3://lake/orders"}
    )
    assert place("sales.orders", catalog(type="hive", uri=metastore.uri)) == "/hive/orders"
    told = catalog(type="hive", uri=metastore.uri, properties={"location-in-properties": "true"})
    assert place("sales.orders", told) == "s3://lake/orders"


def test_a_table_elsewhere_than_the_catalog_may_be_is_refused(metastore: MetastoreInMemory) -> None:
    """Who may create tables in a metastore must not lead a deletion into any folder."""
    metastore.create_table("sales.orders", "/lake/orders", input_format=PAIMON_FORMAT)
    metastore.create_table("sales.trap", "/home/secret", input_format=PAIMON_FORMAT)
    metastore.create_table("sales.root", "/", input_format=PAIMON_FORMAT)
    hive = catalog(type="hive", uri=metastore.uri, below=["/lake"])
    found = tables(hive)
    assert found.tables == ["sales.orders"]
    assert set(found.refused) == {"sales.trap", "sales.root"}
    with pytest.raises(PermanentError, match="is below none of the places"):
        place("sales.trap", hive)


def test_a_database_tells_which_tables_there_are(tmp_path: Path) -> None:
    """The folder follows from the name. A row under another key is a table of another catalog."""
    rows = database(tmp_path, ("jdbc", "sales", "orders"), ("other", "sales", "items"), ("jdbc", "web", "a.b"))
    assert place("sales.orders", rows) == f"{tmp_path}/warehouse/sales.db/orders"
    found = tables(rows)
    assert (found.tables, list(found.refused)) == (["sales.orders"], ["web/a.b"])
    with pytest.raises(PermanentError, match=r"no table sales\.items under the key 'jdbc'; its database also has"):
        place("sales.items", rows)


def test_a_database_that_has_no_catalog_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "catalog.db").close()
    wrong = catalog(type="jdbc", uri=f"jdbc:sqlite:{tmp_path}/catalog.db", warehouse=str(tmp_path))
    with pytest.raises(PermanentError, match=r"has no table paimon_tables: correct catalogs\.lake\.uri"):
        tables(wrong)


@pytest.mark.parametrize("identifier", ["sales.orders$files", "sales.orders$branch_b1", "a.b.c"])
def test_a_name_that_is_no_tables_is_refused(identifier: str, tmp_path: Path) -> None:
    """A branch and a system table have names, and no folder of their own."""
    for settings in (catalog(type="filesystem", warehouse=str(tmp_path)), database(tmp_path)):
        with pytest.raises(PermanentError, match="names no Paimon table"):
            place(identifier, settings)


def test_a_folder_is_asked_for_once_in_a_while(metastore: MetastoreInMemory) -> None:
    """A thousand tables that are polled every ten seconds do not ask the metastore a hundred times a second."""
    metastore.create_table("sales.orders", "/lake/one", input_format=PAIMON_FORMAT)
    clock, hive = ManualClock(), catalog(type="hive", uri=metastore.uri)
    places = Places(monotonic=clock.monotonic)
    assert place("sales.orders", hive, places=places) == "/lake/one"
    metastore.tables("sales")["orders"].sd.location = "/lake/two"
    assert place("sales.orders", hive, places=places) == "/lake/one"
    clock.advance(timedelta(seconds=KNOWN_FOR_SECONDS))
    assert place("sales.orders", hive, places=places) == "/lake/two"
    metastore.tables("sales")["orders"].sd.location = "/lake/three"
    places.forget(named("sales.orders", hive))
    assert place("sales.orders", hive, places=places) == "/lake/three"


def test_a_metastore_that_is_down_is_not_asked_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables fail at once for a moment, so that they do not hold the readers of other tables."""
    clock, asked = ManualClock(), list[str]()

    def down(name: str, _: Any, identifier: str) -> str:
        asked.append(identifier)
        raise TemporaryError(f"the catalog {name} does not answer")

    monkeypatch.setattr(by_metastore, "place_known", down)
    places, hive = Places(monotonic=clock.monotonic), catalog(type="hive", uri="thrift://hms:9083")
    for identifier in ("sales.orders", "sales.items", "sales.orders"):
        with pytest.raises(TemporaryError, match="does not answer"):
            place(identifier, hive, places=places)
    assert asked == ["sales.orders"]
    clock.advance(timedelta(seconds=DOWN_FOR_SECONDS))
    with pytest.raises(TemporaryError, match="does not answer"):
        place("sales.items", hive, places=places)
    assert asked == ["sales.orders", "sales.items"]


def test_a_renamed_table_is_gone_under_its_old_name_and_another_one_there_is_another_table(tmp_path: Path) -> None:
    """A rename moves the folder. A table that is then made under the old name is in the old folder."""
    warehouse, clock = tmp_path / "warehouse", ManualClock()
    rows = database(tmp_path, ("jdbc", "sales", "orders"))
    first = PaimonTable(warehouse / "sales.db" / "orders", clock=clock)
    first.append()
    table_format, table = PaimonFormat(), named("sales.orders", rows)
    before = observed_at(table_format, table, clock)
    shutil.move(first.folder, warehouse / "sales.db" / "renamed")
    with pytest.raises(PermanentError, match="there is no Paimon table"):
        table_format.token(table, STORAGE)
    clock.advance(timedelta(seconds=5))
    PaimonTable(warehouse / "sales.db" / "orders", clock=clock).append()
    after = observed_at(table_format, table, clock)
    assert before is not None
    assert after is not None
    assert (before.location, after.location) == ("catalog://lake/sales.orders",) * 2  # runs are granted by this place
    assert before.created != after.created


def test_the_token_tells_the_folder_of_a_table_that_is_named_by_its_catalog(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "sales.db" / "orders")
    table.append()
    table_format = PaimonFormat()
    by_name = table_format.token(named("sales.orders", catalog(type="filesystem", warehouse=str(tmp_path))), STORAGE)
    by_path = Table(id=TableId("t"), format="paimon", location=str(table.folder), policies={})
    assert by_name == f"{table_format.token(by_path, STORAGE)} {table.folder}"


@pytest.mark.parametrize("key", ["lock.enabled", "jdbc.password", "metastore", "catalog-key", "warehouse"])
def test_a_property_with_a_setting_of_its_own_is_refused(key: str) -> None:
    """It would override the setting, and a secret would stand in the file."""
    with pytest.raises(ValidationError, match="is not a property here"):
        catalog(type="jdbc", uri="jdbc:sqlite:/c.db", warehouse="/w", properties={key: "x"})


@pytest.mark.parametrize("place", ["relative", "/", "catalog://a/b.c", "s3://user:secret@lake/w"])
def test_a_warehouse_that_can_be_none_is_refused(place: str) -> None:
    with pytest.raises(ValidationError):
        catalog(type="filesystem", warehouse=place)


def test_the_core_of_paimon_gets_the_settings_of_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader without a JVM and the core that commits obey one list. The settings win over further properties."""
    monkeypatch.setenv("CATALOG_SECRET", "the-secret")
    jdbc = catalog(
        type="jdbc",
        uri="jdbc:postgresql://db/cat",
        warehouse="s3://lake/wh",
        user="u",
        password={"env": "CATALOG_SECRET"},
        catalog_key="prod",
        lock=True,
        properties={"lock-check-max-sleep": "1 s"},
    )
    always = {"lock-acquire-timeout": "60 s", "cache-enabled": "false"}
    assert core_options(jdbc) == {
        **always,
        "metastore": "jdbc",
        "uri": "jdbc:postgresql://db/cat",
        "warehouse": "s3a://lake/wh",
        "jdbc.user": "u",
        "jdbc.password": "the-secret",
        "catalog-key": "prod",
        "lock.enabled": "true",
        "lock-check-max-sleep": "1 s",
    }
    hive = core_options(catalog(type="hive", uri="thrift://hms:9083"))
    assert hive == {**always, "metastore": "hive", "uri": "thrift://hms:9083"}


def test_commits_take_the_lock_as_paimons_own_catalogs_do() -> None:
    """Without the setting they take it on object stores alone (`AbstractCatalog.lockEnabled`)."""
    hive = catalog(type="hive", uri="thrift://hms:9083")
    assert (commits_under_lock(hive, "/lake/t"), commits_under_lock(hive, "s3://lake/t")) == (False, True)
    locked = catalog(type="hive", uri="thrift://hms:9083", lock=True)
    assert commits_under_lock(locked, "/lake/t")
    assert not commits_under_lock(catalog(type="filesystem", warehouse="/lake"), "s3://lake/t")
    assert not commits_under_lock(None, "s3://lake/t")
