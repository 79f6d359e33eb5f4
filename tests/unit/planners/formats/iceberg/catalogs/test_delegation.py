"""A catalog that hands out credentials to its tables' files, or signs requests to them, and is not asked to."""

from __future__ import annotations

from collections.abc import Iterator
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


def test_the_message_of_a_store_that_refuses_names_the_setting(rest: IcebergRest, orders: Table) -> None:
    """The store's refusal alone would make the operator look for a wrong key. The catalog is not asked for others."""
    rest.handed_out = {"config": CREDENTIALS}
    with pytest.raises(TemporaryError, match=r"403 Forbidden.*under storage, or set catalogs\.lake\.access: vended"):
        IcebergFormat().observe(orders, Shut(), None, now=NOW)
    assert len(rest.loads()) == 1


def test_who_can_read_asks_for_no_credentials(rest: IcebergRest, orders: Table) -> None:
    """They cost the catalog a call to its cloud at each poll."""
    rest.handed_out = {"config": CREDENTIALS}
    rest.seen.clear()
    assert IcebergFormat().observe(orders, LocalStorage(), None, now=NOW).view.name == "sales.orders"
    assert len(rest.loads()) == 1
