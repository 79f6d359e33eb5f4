"""A REST catalog is asked for credentials: with the table, or at the address that it names for new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import Vended
from lakewarden.planners.formats.iceberg.catalogs.vended.storage import VendedFiles, VendedStorage
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest

SECRET = "the-secret-of-the-table"
KEYS = {"s3.access-key-id": "ASIA", "s3.secret-access-key": SECRET, "s3.session-token": SECRET}
PATH = "v1/namespaces/sales/tables/orders/credentials"


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    with iceberg_rest(tmp_path) as server:
        RestCatalog("any", uri=server.uri).create_table("sales.orders", pa.schema([("id", pa.int64())]))
        server.handed_out = {"storage-credentials": [{"prefix": "s3://lake/t", "config": KEYS}], "config": {}}
        server.seen.clear()
        yield server


def _table(rest: IcebergRest, identifier: str = "sales.orders", **changes: Any) -> Table:
    told = {"type": "rest", "uri": rest.uri, "timeout": "5s", "access": "vended", **changes}
    settings = TypeAdapter[Any](Catalog).validate_python(told)
    return Table(id=TableId(identifier), format="iceberg", location=f"catalog://lake/{identifier}", catalog=settings)


def _asked(rest: IcebergRest, known: Vended | None = None) -> Vended:
    return Pointers().vended(_table(rest), LocalStorage(), known)


def _requests(rest: IcebergRest) -> list[str]:
    found = [request.split()[1].split("?")[0] for request, _ in rest.seen if "/tables/" in request]
    rest.seen.clear()
    return found


def test_credentials_come_with_the_table(rest: IcebergRest) -> None:
    """There is one request."""
    [credential] = _asked(rest).credentials

    assert (credential.prefix, credential.access_key, credential.token) == ("s3://lake/t", "ASIA", SECRET)
    assert _requests(rest) == ["/v1/namespaces/sales/tables/orders"]


@pytest.mark.parametrize("address", [PATH, f"/{PATH}", "{uri}/" + PATH])
def test_new_ones_are_asked_for_where_the_catalog_says(rest: IcebergRest, address: str) -> None:
    """That answer is shorter than the whole table."""
    rest.handed_out["config"] = {"client.refresh-credentials-endpoint": address.format(uri=rest.uri)}
    known = _asked(rest)
    _requests(rest)

    assert _asked(rest, known).credentials == known.credentials
    assert _requests(rest) == [f"/{PATH}"]


@pytest.mark.parametrize("address", ["v1/nowhere", "http://127.0.0.1:9/credentials", "http://[", "ftp://x/y"])
def test_where_that_fails_the_table_is_asked_for(rest: IcebergRest, address: str) -> None:
    """The token is for the catalog. Another server gets neither the token nor a request."""
    rest.handed_out["config"] = {"client.refresh-credentials-endpoint": address}
    known = _asked(rest)
    _requests(rest)

    assert _asked(rest, known).credentials == known.credentials
    assert _requests(rest) == ["/v1/namespaces/sales/tables/orders"]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "denies us access to sales.orders"),
        (404, "has no table sales.orders"),
        (500, "does not answer"),
        (401, "rejects our credentials"),
    ],
)
def test_a_refusal_is_told_as_that_of_the_table(rest: IcebergRest, status: int, says: str) -> None:
    """The message is the same as after a request for the pointer."""
    rest.statuses["/tables/"] = status
    with pytest.raises(LakewardenError, match=says):
        _asked(rest)


def test_an_answer_that_cannot_be_understood_shows_nothing_of_itself(rest: IcebergRest) -> None:
    """The answer may contain a credential."""
    rest.handed_out = {"storage-credentials": [{"config": KEYS}]}
    with pytest.raises(
        LakewardenError, match=r"answers, but not with credentials to the files of sales\.orders"
    ) as error:
        _asked(rest)
    assert SECRET not in f"{error.value!r} {error.value.__cause__}"


def test_only_tables_of_such_catalogs_are_read_so(rest: IcebergRest) -> None:
    """Each table has its own credentials. Other settings of the catalog mean other credentials."""
    files, ours = VendedFiles(Pointers()), LocalStorage()
    by_path = Table(id=TableId("t"), format="iceberg", location="/t")

    assert files.of(by_path, ours) is files.of(_table(rest, access="storage"), ours) is ours
    first = files.of(_table(rest), ours)
    assert isinstance(first, VendedStorage)
    assert files.of(_table(rest), ours) is first
    assert files.of(_table(rest, "sales.others"), ours) is not first
    assert files.of(_table(rest, timeout="6s"), ours) is not first
    assert "secret" not in _table(rest).catalog.model_dump_json()
