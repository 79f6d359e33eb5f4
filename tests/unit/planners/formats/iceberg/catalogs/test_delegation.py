"""A catalog that hands out credentials to its tables' files, or signs requests to them, and is not asked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.format import IcebergFormat
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.storage.content import refused
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest
from tests.support.values import NOW

SECRET = "AKIA-OF-THE-CATALOG"
CREDENTIALS = {"s3.access-key-id": SECRET, "s3.secret-access-key": SECRET, "s3.session-token": SECRET}


class Shut(LocalStorage):
    """A store that refuses every client without a key."""

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        raise refused(location, "403 Forbidden")


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    with iceberg_rest(tmp_path) as server:
        RestCatalog("any", uri=server.uri).create_table("sales.orders", pa.schema([("id", pa.int64())]))
        yield server


@pytest.fixture
def orders(rest: IcebergRest) -> Table:
    settings = TypeAdapter[Any](Catalog).validate_python({"type": "rest", "uri": rest.uri, "timeout": "5s"})
    return Table(id=TableId("orders"), format="iceberg", location="catalog://lake/sales.orders", catalog=settings)


@pytest.mark.parametrize(
    ("handed_out", "says"),
    [
        ({"config": CREDENTIALS}, "hands out credentials to the table's files ('s3.access-key-id')"),
        (
            {"storage-credentials": [{"prefix": "s3://lake", "config": CREDENTIALS}]},
            "hands out credentials to the table's files ('s3.access-key-id'), which are used with "
            "catalogs.lake.access: vended",
        ),
        ({"config": {"gcs.oauth2.token": SECRET}}, "('gcs.oauth2.token'), which Lakewarden does not use"),
        (
            {"config": {"s3.remote-signing-enabled": "true"}},
            "signs each request to the table's files (s3.remote-signing-enabled), which Lakewarden does not use",
        ),
    ],
    ids=["config", "storage-credentials", "gcs", "remote signing"],
)
def test_a_table_whose_catalog_hands_out_credentials_is_blocked_by_name(
    rest: IcebergRest, orders: Table, handed_out: Mapping[str, Any], says: str
) -> None:
    """The store's refusal alone would make the operator look for a wrong key. The reason names the remedy and no
    secret.
    """
    rest.handed_out = dict(handed_out)
    with pytest.raises(TemporaryError) as error:
        IcebergFormat().observe(orders, Shut(), None, now=NOW)

    assert str(error.value).startswith("the catalog lake ")
    assert says in str(error.value)
    assert "add an entry for that bucket under storage" in str(error.value)
    assert "403 Forbidden" in str(error.value)
    assert SECRET not in str(error.value)


def test_a_catalog_that_hands_nothing_out_is_not_blamed(rest: IcebergRest, orders: Table) -> None:
    """Only the store's refusal is reported."""
    for nonsense in ({}, {"config": {"s3.region": "x"}}, {"config": "?"}, {"storage-credentials": [1]}):
        rest.handed_out = dict(nonsense)
        with pytest.raises(TemporaryError, match="its store refuses us") as error:
            IcebergFormat().observe(orders, Shut(), None, now=NOW)
        assert "the catalog" not in str(error.value)


def test_who_can_read_asks_for_no_credentials(rest: IcebergRest, orders: Table) -> None:
    """They cost the catalog a call to its cloud at each poll."""
    rest.handed_out = {"config": CREDENTIALS}
    rest.seen.clear()
    assert IcebergFormat().observe(orders, LocalStorage(), None, now=NOW).view.name == "sales.orders"
    assert len(rest.loads()) == 1
