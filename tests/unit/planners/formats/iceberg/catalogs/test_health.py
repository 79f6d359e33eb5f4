"""Whether an error belongs to a table, to a namespace or to the whole catalog. Seen at a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.planners.formats.iceberg.catalogs.circuit_breaker import LONGEST_REST_SECONDS, REST_SECONDS, SEVERAL
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
        asker.clock.advance(timedelta(seconds=1))

    assert [found for request, found in rest.seen if "/tables/good" in request] == [304] * 20 * len(HEALTHY)
    assert openings(rest) <= (3 if status in (401, 419) else 0), "once after each rest of the table"


def test_a_table_in_trouble_rests_longer_and_longer_and_is_back_at_its_first_answer(
    asker: Any, rest: IcebergRest
) -> None:
    """Only this table waits. It is asked again after a minute at the latest."""
    settings, table = settings_of(rest), HEALTHY[0]
    rest.statuses["/tables/good0"] = 500
    for _ in range(600):
        refused(lambda: asker.where(settings, table))
        asker.clock.advance(timedelta(seconds=1))
    asked = [found for request, found in rest.seen if "/tables/good0" in request]
    assert 600 / LONGEST_REST_SECONDS <= len(asked) <= 15

    del rest.statuses["/tables/good0"]
    asker.clock.advance(timedelta(seconds=LONGEST_REST_SECONDS))
    for _ in range(10):
        asker.where(settings, table)


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
        asker.clock.advance(timedelta(seconds=0.2))

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
        asker.clock.advance(timedelta(seconds=LONGEST_REST_SECONDS))


def test_a_server_without_answers_is_left_alone_until_one_look_finds_it_back(asker: Any, rest: IcebergRest) -> None:
    """Several different tables in a row got no answer. After that, no request waits for a time-out."""
    settings = settings_of(rest, timeout="200ms")
    asker.where(settings, HEALTHY[0])
    rest.delay = 1
    for table in HEALTHY[:SEVERAL]:
        refused(asker.where, settings, table)
    arrived = rest.arrived
    for table in HEALTHY[SEVERAL:]:
        assert "has not answered in time" in str(refused(asker.where, settings, table))
    assert rest.arrived == arrived

    rest.delay = 0
    asker.clock.advance(timedelta(seconds=REST_SECONDS))
    for table in HEALTHY:
        asker.where(settings, table)


def test_a_server_that_cannot_be_opened_is_down_for_all(asker: Any, rest: IcebergRest) -> None:
    """No client can open it, so no other request tries. There is one opening in each pause."""
    rest.statuses["/v1/config"] = 500
    for table in (*HEALTHY, *BROKEN):
        refused(asker.where, settings_of(rest), table)
    assert openings(rest) == 1

    rest.statuses.clear()
    asker.clock.advance(timedelta(seconds=LONGEST_REST_SECONDS))
    asker.where(settings_of(rest), HEALTHY[0])


def test_those_who_find_no_place_wait_for_one(asker: Any, rest: IcebergRest) -> None:
    """No request is refused, and no more requests are under way than the settings allow."""
    settings = settings_of(rest, requests_at_once=2)
    asker.where(settings, HEALTHY[0])
    rest.delay, rest.most_at_once = 0.05, 0

    with ThreadPoolExecutor(24) as threads:
        looks = [threads.submit(asker.where, settings, HEALTHY[n % len(HEALTHY)]) for n in range(48)]
        assert all(look.result() for look in looks)

    assert rest.most_at_once == 2


def test_a_server_that_wants_fewer_requests_gets_fewer_and_is_left_alone_as_long_as_it_says(
    asker: Any, rest: IcebergRest
) -> None:
    """This begins after several tables got this answer. The pause that the server asks for is limited to a minute."""
    settings = settings_of(rest)
    for table in HEALTHY:
        asker.where(settings, table)
    (known,) = asker.pointers._known.values()
    before = known._circuit_breaker.places
    rest.status, rest.retry_after = 429, 20
    for table in HEALTHY[:SEVERAL]:
        refused(asker.where, settings, table)
        asker.clock.advance(timedelta(milliseconds=10))
    assert known._circuit_breaker.places <= max(before // 2, 1)
    rest.status = None
    rest.seen.clear()

    asker.clock.advance(timedelta(seconds=19))
    refused(lambda: asker.where(settings, HEALTHY[-1]))
    assert not rest.seen
    asker.clock.advance(timedelta(seconds=1))
    asker.where(settings, HEALTHY[-1])


def test_a_forbidden_table_is_named_with_what_to_do(asker: Any, rest: IcebergRest) -> None:
    """The error belongs to the table: the secret is right."""
    rest.statuses["/tables/good1"] = 403
    error = refused(asker.where, settings_of(rest), HEALTHY[1])

    assert isinstance(error, PermanentError)
    assert str(error).startswith("the catalog lake forbids us sales.good1: ")


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


def test_the_listing_of_a_large_catalog_is_no_sign_that_the_server_is_slow(asker: Any, rest: IcebergRest) -> None:
    """It takes as many requests as there are namespaces."""
    settings = settings_of(rest, timeout="400ms")
    for table in HEALTHY:
        asker.where(settings, table)
    (known,) = asker.pointers._known.values()
    before = known._circuit_breaker.places
    rest.delay = 0.15

    assert asker.tables(settings) == HEALTHY
    assert known._circuit_breaker.places == before


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
