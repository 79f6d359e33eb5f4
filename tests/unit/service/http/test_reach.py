"""What holds for every route: a table that is not registered, HEAD, and names that are an attack."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.reach import answered
from tests.unit.service.http.conftest import ServedDaemon

# What every route says of a table that is not registered, and of a control thread that does not answer.


def test_every_route_names_the_table_that_is_not_registered(served: ServedDaemon) -> None:
    """404, in the same words, whatever is asked of it."""
    paths = served.api.get("/openapi.json").raise_for_status().json()["paths"]
    routes = [(method, path) for path, methods in paths.items() for method in methods if "{table}" in path]
    assert len(routes) > 5
    for method, path in routes:
        answer = served.api.request(method, path.format(table="nope", service="clean", run="1", hold="1"))
        said = (answer.status_code, answer.json()["code"], answer.json()["detail"])
        assert said == (404, "not_found", "table 'nope' is not registered"), (method, path)


def test_a_control_thread_that_does_not_answer_is_a_reason_to_ask_again() -> None:
    """503, not 500: nobody knows whether it will act, so the answer says where that is seen."""
    silent: Future[None] = Future()
    with pytest.raises(ApiError, match="is busy: see /v1/runs") as refused:
        asyncio.run(answered(silent, within=timedelta(milliseconds=1)))
    assert (refused.value.status, refused.value.code) == (503, "unavailable")


# HEAD is answered as GET, without a body.


@pytest.mark.parametrize("path", ["/v1/tables", "/v1/tables/none", "/openapi.json", "/", "/v1/tables?limit=0"])
def test_a_head_is_the_head_of_a_get(served: ServedDaemon, path: str) -> None:
    """With the same status and the same length, also of an error."""
    head, get = served.api.head(path), served.api.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert abs(int(head.headers["content-length"]) - int(get.headers["content-length"])) < 10, "ages have more digits"


def test_a_head_acts_nowhere(served: ServedDaemon) -> None:
    """A route that only acts has no GET, and so no HEAD."""
    answer = served.api.head("/v1/tables/trips/pause")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert served.api.delete("/v1/tables").headers["allow"] == "GET, HEAD"


def test_probes_and_metrics_have_a_head(served: ServedDaemon) -> None:
    """Some load balancers ask with HEAD."""
    for path in ("/livez", "/readyz", "/metrics"):
        assert served.management.head(path).status_code == served.management.get(path).status_code


# A table whose name is an attack on whoever is shown it.


NASTY = "trips\x1b[2J\u202e\ud800\u2066\x00\x9b31m"


def texts(value: Any) -> list[str]:
    """Return every text in an answer."""
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("place", ["/v1/tables", "/v1/runs"])
def test_one_tables_name_ends_no_answer_and_shows_as_what_it_is(
    make_served: Callable[..., ServedDaemon], place: str
) -> None:
    """Half a pair of surrogates made the list of all tables an error."""
    served = make_served(name=NASTY)
    answer = served.api.get(place)
    assert answer.status_code == 200
    assert all(unicodedata.category(sign)[0] != "C" for text in texts(answer.json()) for sign in text if sign != "\n")


def test_one_tables_name_does_not_end_the_metrics_of_all(make_served: Callable[..., ServedDaemon]) -> None:
    """It is a label like any other."""
    answer = make_served(name=NASTY).management.get("/metrics")
    assert answer.status_code == 200
    assert r'table="trips\\x1b[2J\\u202e\\ud800' in answer.text


def test_what_a_person_sends_is_shown_as_what_it_is(served: ServedDaemon) -> None:
    """The reason of a pause is on every screen afterwards."""
    served.api.post("/v1/tables/trips/pause", json={"reason": "\x1b[2J\u202epaused\x07"}).raise_for_status()
    answer = served.api.get("/v1/tables/trips").raise_for_status().json()
    assert answer["paused"] == "\\x1b[2J\\u202epaused\\x07"
