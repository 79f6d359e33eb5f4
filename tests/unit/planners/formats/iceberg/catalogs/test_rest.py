"""The pointer of a table in a REST catalog, as the server has it, with as little traffic as the server allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from sqlalchemy import text

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    with iceberg_rest(tmp_path) as server:
        yield server


@pytest.fixture
def orders(rest: IcebergRest) -> Table:
    """Create a table by pyiceberg's own client, so that the server does not depend on our code."""
    made: Table = RestCatalog("any", uri=rest.uri).create_table("sales.orders", ROWS.schema)
    return made


def _settings(rest: IcebergRest, **more: Any) -> dict[str, Any]:
    return {"type": "rest", "uri": rest.uri, "timeout": "5s", **more}


def test_it_moves_with_each_commit(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """The pointer is the one that the committing engine sees."""
    seen = []
    for _ in range(3):
        orders.append(ROWS)
        seen.append(asker.where(_settings(rest)))
        assert seen[-1] == orders.metadata_location

    assert len(set(seen)) == 3


def test_an_unchanged_table_costs_one_short_answer(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """The request names the known version, and the server answers that it is still current."""
    asker.where(_settings(rest))
    rest.loads()

    assert asker.where(_settings(rest)) == orders.metadata_location
    assert rest.loads() == [304]


def test_a_server_without_etags_is_asked_all_the_same(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """A server need not support them."""
    rest.etags = False
    asker.where(_settings(rest))
    orders.append(ROWS)

    assert asker.where(_settings(rest)) == orders.metadata_location


def test_snapshots_without_a_name_are_not_sent(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """A long history is not needed to know whether the table has changed."""
    asker.where(_settings(rest))

    assert any("tables/orders?snapshots=refs" in request for request, _ in rest.seen)


def test_a_missing_table_is_said_to_be_missing(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """A repeated request changes nothing. The neighbours are answered as before."""
    with pytest.raises(PermanentError, match=r"the catalog lake has no table sales\.returns"):
        asker.where(_settings(rest), "sales.returns")

    assert asker.where(_settings(rest)) == orders.metadata_location


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_is_out_of_order_is_temporary_trouble(
    asker: Any, rest: IcebergRest, orders: Table, status: int
) -> None:
    """The error is named. The next request is answered again."""
    asker.where(_settings(rest))
    rest.status = status
    with pytest.raises(TemporaryError, match="the catalog lake does not answer"):
        asker.where(_settings(rest))
    rest.status = None
    assert asker.where(_settings(rest)) == orders.metadata_location


def test_a_slow_server_is_given_up(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """The request ends after the time-out of the settings."""
    rest.delay = 3600
    with pytest.raises(TemporaryError, match="the catalog lake has not answered in time"):
        asker.where(_settings(rest, timeout="300ms"))


def test_a_server_that_is_down_is_temporary_trouble(asker: Any, tmp_path: Path) -> None:
    """It may come back."""
    with iceberg_rest(tmp_path) as gone:
        settings = _settings(gone)
    with pytest.raises(TemporaryError, match="the catalog lake does not answer"):
        asker.where(settings)


def test_a_slow_catalog_keeps_no_request_longer_than_its_time_out(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """A request waits for a place, and then for an answer, each for the time-out. Most of them never get a place."""
    asker.where(_settings(rest))
    rest.delay = 3600
    arrived = rest.arrived
    errors: list[str] = []

    def ask() -> None:
        with pytest.raises(TemporaryError) as error:
            asker.where(_settings(rest, timeout="1s"))
        errors.append(str(error.value))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert rest.arrived - arrived < 12
    assert len(errors) == 12
    assert all(error.startswith("the catalog lake ") for error in errors)


def test_a_catalog_that_hangs_holds_up_no_other(asker: Any, rest: IcebergRest, orders: Table, tmp_path: Path) -> None:
    """The other catalog answers while twelve requests wait."""
    (tmp_path / "other").mkdir()
    with iceberg_rest(tmp_path / "other") as other:
        RestCatalog("any", uri=other.uri).create_table("sales.orders", ROWS.schema)
        asker.where(_settings(rest))
        rest.goes_on.clear()
        threads = [threading.Thread(target=asker.where, args=(_settings(rest, timeout="5m"),)) for _ in range(12)]
        for thread in threads:
            thread.start()
        asker.where(_settings(other), name="other")
        assert all(thread.is_alive() for thread in threads)
        rest.goes_on.set()
        for thread in threads:
            thread.join()


def test_a_refusal_names_the_setting(asker: Any, rest: IcebergRest, orders: Table, tmp_path: Path) -> None:
    """The secret is wrong, so an operator must act. Once it is replaced, the next observation succeeds."""
    (tmp_path / "token").write_text("old")
    rest.token = "new"
    settings = _settings(rest, token={"file": str(tmp_path / "token")})
    for _ in range(2):
        with pytest.raises(PermanentError, match=r"check catalogs\.lake\.token") as refusal:
            asker.where(settings)
        assert "old" not in str(refusal.value)
    (tmp_path / "token").write_text("new")

    assert asker.where(settings) == orders.metadata_location


def test_a_token_that_expired_is_asked_for_anew(
    asker: Any, rest: IcebergRest, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential is exchanged for tokens that expire. No request fails by that."""
    monkeypatch.setenv("LAKE_CREDENTIAL", "me:secret")
    rest.token, rest.credential = "first", "me:secret"
    settings = _settings(rest, credential={"env": "LAKE_CREDENTIAL"})
    assert asker.where(settings) == orders.metadata_location
    rest.token = "second"

    assert asker.where(settings) == orders.metadata_location


def test_its_tables_are_listed_in_every_namespace(asker: Any, rest: IcebergRest, orders: Table) -> None:
    """They are listed by their full names."""
    client = RestCatalog("any", uri=rest.uri)
    rest.catalog.create_namespace("sales.eu")
    client.create_table("sales.eu.returns", ROWS.schema)

    assert asker.tables(_settings(rest)) == ["sales.eu.returns", "sales.orders"]
    assert asker.where(_settings(rest), "sales.eu.returns").startswith(f"{rest.catalog.properties['warehouse']}/")


def test_a_table_with_a_dot_in_its_name_is_refused_and_not_taken_for_another(
    asker: Any, rest: IcebergRest, orders: Table
) -> None:
    """`sales` / `eu.returns` would be asked for as `sales.eu` / `returns`, which may be a table, too."""
    client = RestCatalog("any", uri=rest.uri)
    rest.catalog.create_namespace("sales.eu")
    for name in ("sales.eu.returns", "sales.odd"):
        client.create_table(name, ROWS.schema)
    with rest.catalog.engine.begin() as database:  # pyiceberg creates none by itself
        database.execute(text("UPDATE iceberg_tables SET table_name = 'eu.returns' WHERE table_name = 'odd'"))

    listing = asker.listing(_settings(rest))
    assert list(listing.tables) == ["sales.eu.returns", "sales.orders"]
    assert "contains a dot" in listing.refused["sales/eu.returns"]
