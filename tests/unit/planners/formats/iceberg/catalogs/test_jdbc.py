"""The pointer of a table in a JDBC catalog: one row in the database of its writers. Lakewarden only reads it."""

from __future__ import annotations

import contextlib
import importlib.util
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support.store.postgres import PostgresServer, running_postgres
from tests.support.store.relay import Relay, relay_to

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@contextlib.contextmanager
def _in_postgres(server: PostgresServer) -> Iterator[tuple[str, str, Relay]]:
    """Yield a new database: its name for SQLAlchemy and for JDBC, and the settings to reach it."""
    url = server.make_database()
    socket = Path(parse_qs(urlsplit(url).query)["host"][0]) / ".s.PGSQL.5432"
    with relay_to(socket) as relay:
        database = urlsplit(url).path
        yield url.replace("postgresql://", "postgresql+psycopg://"), f"//127.0.0.1:{relay.port}{database}", relay


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the address of a catalog, for pyiceberg and for Lakewarden."""
    lake = {"type": "jdbc", "warehouse": str(tmp_path)}
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/catalog.db", {**lake, "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
        return
    with _in_postgres(request.getfixturevalue("postgres")) as (theirs, ours, _):
        yield theirs, {**lake, "uri": f"jdbc:postgresql:{ours}", "user": "postgres"}


@pytest.fixture
def settings(database: tuple[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return database[1]


@pytest.fixture
def orders(database: tuple[str, Mapping[str, Any]], tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog("lake", uri=database[0], warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    yield catalog.create_table("sales.orders", ROWS.schema)
    catalog.engine.dispose()


def test_it_moves_with_each_commit(asker: Any, settings: Mapping[str, Any], orders: Table) -> None:
    """The pointer is the one that the committing engine sees."""
    for _ in range(3):
        orders.append(ROWS)
        assert asker.where(settings) == orders.metadata_location

    assert asker.tables(settings) == ["sales.orders"]


def test_the_rows_of_another_catalog_are_not_ours(asker: Any, settings: Mapping[str, Any], orders: Table) -> None:
    """Rows are keyed by the name that the writers give the catalog. Lakewarden may have another name for it."""
    with pytest.raises(PermanentError, match="under the name 'other'; its database also knows lake: see catalog_name"):
        asker.where(settings, name="other")

    assert asker.where({**settings, "catalog_name": "lake"}, name="other") == orders.metadata_location


def test_a_missing_table_and_a_view_have_no_pointer(
    asker: Any, database: tuple[str, Mapping[str, Any]], settings: Mapping[str, Any], orders: Table
) -> None:
    """A repeated request changes nothing."""
    with pytest.raises(PermanentError, match=r"has no table sales\.returns"):
        asker.where(settings, "sales.returns")
    _execute(database[0], "UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    with pytest.raises(PermanentError, match="is a view"):
        asker.where(settings)
    assert asker.tables(settings) == []


def test_the_first_schema_is_read_too(
    asker: Any, database: tuple[str, Mapping[str, Any]], settings: Mapping[str, Any], orders: Table
) -> None:
    """Catalogs that are older than views have no column for them. Lakewarden does not add one."""
    _execute(database[0], "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")

    assert asker.where(settings) == orders.metadata_location
    assert asker.tables(settings) == ["sales.orders"]


def test_a_database_without_the_catalogs_table_is_the_wrong_one(asker: Any, settings: Mapping[str, Any]) -> None:
    """Nothing is created there."""
    if "sqlite" in settings["uri"]:
        sqlite3.connect(settings["uri"].removeprefix("jdbc:sqlite:")).execute("CREATE TABLE x (y)").close()
    with pytest.raises(PermanentError, match="has no table iceberg_tables: correct its uri"):
        asker.where(settings)


def test_a_missing_sqlite_file_is_not_made(asker: Any, tmp_path: Path) -> None:
    """It may be on a disk that is mounted a moment later."""
    with pytest.raises(TemporaryError, match="the catalog lake does not answer"):
        asker.where({"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/no.db", "warehouse": "/x"})

    assert not (tmp_path / "no.db").exists()


def test_a_database_that_falls_silent_is_given_up(asker: Any, postgres: PostgresServer, tmp_path: Path) -> None:
    """The request ends after the time-out of the settings. When the database answers again, a later request gets its
    own answer.
    """
    with _in_postgres(postgres) as (theirs, ours, relay):
        catalog = SqlCatalog("lake", uri=theirs, warehouse=f"file://{tmp_path}")
        catalog.create_namespace("sales")
        orders = catalog.create_table("sales.orders", ROWS.schema)
        settings = {"type": "jdbc", "uri": f"jdbc:postgresql:{ours}", "warehouse": "/x", "user": "postgres"}
        settings["timeout"] = "500ms"
        asker.where(settings)
        relay.silence()
        with pytest.raises(TemporaryError, match="the catalog lake does not answer"):
            asker.where(settings)
        relay.speak()
        orders.append(ROWS)

        assert asker.where(settings) == orders.metadata_location
        catalog.engine.dispose()


def test_a_wrong_password_names_the_settings(
    asker: Any, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is not repeated. Once it is right, the next observation succeeds."""
    with _in_postgres(postgres) as (theirs, ours, _), postgres.guarded_user("warden", password="right"):
        catalog = SqlCatalog("lake", uri=theirs, warehouse=f"file://{tmp_path}")
        catalog.create_namespace("sales")
        orders = catalog.create_table("sales.orders", ROWS.schema)
        postgres.execute(theirs.replace("+psycopg", ""), "GRANT SELECT ON iceberg_tables TO warden")
        settings = {"type": "jdbc", "uri": f"jdbc:postgresql:{ours}", "warehouse": "/x", "user": "warden"}
        settings["password"] = {"env": "CATALOG_PASSWORD"}  # type: ignore[assignment]
        monkeypatch.setenv("CATALOG_PASSWORD", "hunter2")
        with pytest.raises(PermanentError, match=r"check catalogs\.lake\.user and catalogs\.lake\.password") as refusal:
            asker.where(settings)
        assert "hunter2" not in str(refusal.value)
        monkeypatch.setenv("CATALOG_PASSWORD", "right")

        assert asker.where(settings) == orders.metadata_location
        catalog.engine.dispose()
        postgres.execute(theirs.replace("+psycopg", ""), "DROP OWNED BY warden")


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("jdbc:sqlite:catalog.db", "an SQLite database needs an absolute path, not 'catalog.db'"),
        ("jdbc:postgresql://a:1,b:2/x", "does not have the form //host:port/database"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused(asker: Any, uri: str, problem: str) -> None:
    """It is refused before any request is sent."""
    with pytest.raises(PermanentError, match=problem):
        asker.where({"type": "jdbc", "uri": uri, "warehouse": "/x"})


@pytest.mark.skipif(importlib.util.find_spec("pymysql") is not None, reason="the driver is installed")
def test_a_missing_driver_is_named(asker: Any) -> None:
    """The error says what to install."""
    with pytest.raises(PermanentError, match="needs the driver pymysql: pip install pymysql"):
        asker.where({"type": "jdbc", "uri": "jdbc:mysql://db/x", "warehouse": "/x"})


def _execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()
