"""Whether an error belongs to a table, to a namespace or to the whole catalog. Seen at a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest

HEALTHY = [f"sales.good{number}" for number in range(6)]
BROKEN = [f"sales.bad{number}" for number in range(60)]


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    """Start a server with a few tables that answer."""
    with iceberg_rest(tmp_path) as server:
        client = RestCatalog("any", uri=server.uri)
        for table in HEALTHY:
            client.create_table(table, pa.schema([("id", pa.int64())]))
        server.seen.clear()
        yield server


def settings_of(rest: IcebergRest, **more: Any) -> dict[str, Any]:
    return {"type": "rest", "uri": rest.uri, "timeout": "5s", **more}


def refused(ask: Callable[..., object], *arguments: object) -> LakewardenError:
    """Return the error that an observation was refused with."""
    with pytest.raises(LakewardenError) as error:
        ask(*arguments)
    return error.value


def openings(rest: IcebergRest) -> int:
    """Return how often the catalog was opened."""
    return sum("/v1/config" in request for request, _ in rest.seen)


@pytest.mark.parametrize("status", [500, 502, 503, 429, 403, 401, 419, 404])
def test_a_table_that_is_refused_harms_no_other(asker: Any, rest: IcebergRest, status: int) -> None:
    """However often it is asked for, its neighbours are answered. Each time the short answer says that the
    known version is still current.
    """
    settings = settings_of(rest)
    for table in HEALTHY:
        asker.where(settings, table)
    rest.statuses["/tables/bad"] = status
    rest.seen.clear()

    for _ in range(20):
        refused(lambda: asker.where(settings, BROKEN[0]))
        for table in HEALTHY:
            asker.where(settings, table)

    assert [found for request, found in rest.seen if "/tables/good" in request] == [304] * 20 * len(HEALTHY)
    assert openings(rest) <= (20 if status in (401, 419) else 0), "a login that is refused is made anew, once"


@pytest.mark.long
def test_sixty_broken_tables_refuse_no_healthy_look(asker: Any, rest: IcebergRest) -> None:
    """Many threads ask for the broken tables at once, and these answer slowly."""
    settings = settings_of(rest)
    rest.statuses["/tables/bad"] = 500
    rest.delays["/tables/bad"] = 0.1
    seen: list[str] = []

    def look(number: int) -> None:
        if number % 2:
            refused(lambda: asker.where(settings, BROKEN[number // 2 % len(BROKEN)]))
        else:
            seen.append(asker.where(settings, HEALTHY[number // 2 % len(HEALTHY)]))

    with ThreadPoolExecutor(16) as threads:
        for done in [threads.submit(look, number) for number in range(400)]:
            done.result()

    assert len(seen) == 200


def test_one_table_that_hangs_closes_nothing(asker: Any, rest: IcebergRest) -> None:
    """It is asked for again and again. Meanwhile its neighbours are answered as before."""
    settings = settings_of(rest, timeout="200ms")
    rest.delays["/tables/good0"] = 1
    for _ in range(4):
        assert isinstance(refused(lambda: asker.where(settings, HEALTHY[0])), TemporaryError)
        for table in HEALTHY[1:]:
            asker.where(settings, table)


def test_those_who_find_no_place_wait_for_one(asker: Any, rest: IcebergRest) -> None:
    """No request is refused, and no more requests are under way than the settings allow."""
    settings = settings_of(rest, requests_at_once=2)
    asker.where(settings, HEALTHY[0])
    rest.delay, rest.most_at_once = 0.05, 0

    with ThreadPoolExecutor(24) as threads:
        looks = [threads.submit(asker.where, settings, HEALTHY[n % len(HEALTHY)]) for n in range(48)]
        assert all(look.result() for look in looks)

    assert rest.most_at_once == 2


def test_a_forbidden_table_is_named_with_what_to_do(asker: Any, rest: IcebergRest) -> None:
    """The error belongs to the table: the secret is right."""
    rest.statuses["/tables/good1"] = 403
    error = refused(asker.where, settings_of(rest), HEALTHY[1])

    assert isinstance(error, PermanentError)
    assert str(error).startswith("the catalog lake denies us access to sales.good1: ")


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_namespace_that_cannot_be_listed_ends_the_listing_of_no_other(
    asker: Any, rest: IcebergRest, status: int
) -> None:
    """The namespace is reported with its reason, and so is everything below it. The other namespaces are complete."""
    for namespace in ("closed", "closed.below", "open"):
        rest.catalog.create_namespace(namespace)
    RestCatalog("any", uri=rest.uri).create_table("open.orders", pa.schema([("id", pa.int64())]))
    rest.statuses["/namespaces/closed/tables"] = status

    listing = asker.listing(settings_of(rest))

    assert listing.tables == ["open.orders", *HEALTHY]
    assert list(listing.unlisted) == ["closed"]
    assert "the catalog lake " in listing.unlisted["closed"]


def test_a_namespace_that_is_dropped_meanwhile_has_no_tables(asker: Any, rest: IcebergRest) -> None:
    """That is no error."""
    rest.catalog.create_namespace("brief")
    rest.statuses["/namespaces/brief/tables"] = 404

    assert asker.tables(settings_of(rest)) == HEALTHY


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_catalog_that_lists_nothing_at_all_is_no_empty_one(asker: Any, rest: IcebergRest, status: int) -> None:
    """An empty listing of all is no answer. So no table is removed."""
    asker.where(settings_of(rest), HEALTHY[0])
    rest.statuses["/namespaces"] = status

    refused(lambda: asker.listing(settings_of(rest)))


def test_a_catalog_is_opened_once_however_many_ask_first(asker: Any, rest: IcebergRest) -> None:
    """It is opened again once when its token has expired. The other requests use the new token."""
    settings = settings_of(rest)
    start = threading.Barrier(4)

    def ask(table: str) -> str:
        start.wait(10)
        found: str = asker.where(settings, table)
        return found

    with ThreadPoolExecutor(4) as threads:
        assert len({look.result() for look in [threads.submit(ask, table) for table in HEALTHY[:4]]}) == 4

    assert openings(rest) == 1
