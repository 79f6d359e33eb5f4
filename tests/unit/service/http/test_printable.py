"""A table whose name is an attack on whoever is shown it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.service.http.conftest import ServedDaemon

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
