"""Parameters and keys that a route does not have, or that are there twice."""

from __future__ import annotations

import pytest

from tests.unit.service.http.conftest import ServedDaemon

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("query", ["limit=1&limit=2", "id=a&id=a", "blocked=true&limit=3&blocked=false"])
def test_a_parameter_that_is_there_twice_is_refused(served: ServedDaemon, query: str) -> None:
    """A proxy in front may read the first one, and the daemon would read the last one."""
    answer = served.api.get(f"/v1/tables?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "is there twice" in answer.json()["detail"]


def test_a_parameter_with_several_values_is_not_refused(served: ServedDaemon) -> None:
    """The states of runs, and the kinds of events."""
    assert served.api.get("/v1/runs?state=FAILED&state=SUCCEEDED").status_code == 200
    assert served.api.get("/v1/events?kind=run&kind=table").status_code in (200, 422)


@pytest.mark.parametrize("body", ['{"reason": "a", "reason": "b"}', '{"reason": {"x": 1, "x": 1}}'])
def test_a_key_that_is_there_twice_is_refused(served: ServedDaemon, body: str) -> None:
    """At any depth. Nothing is done."""
    answer = served.api.post("/v1/tables/trips/pause", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (422, "body")
    assert "is there twice" in answer.json()["detail"]
    assert served.api.get("/v1/tables/trips").json()["paused"] is None


@pytest.mark.parametrize("body", ["{", "[" * 30_000, '"\\ud800"', "\xff", "null"])
def test_a_body_that_is_no_json_gets_the_answer_of_the_route(served: ServedDaemon, body: str) -> None:
    """The search for keys that are there twice makes no error of its own."""
    answer = served.api.post("/v1/tables/trips/pause", content=body.encode("latin-1"), headers=JSON)
    assert answer.status_code in (204, 400, 422)


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", "/v1/tables?limit=x", None, "query.limit: needs a whole number, not 'x'"),
        ("GET", "/v1/tables?limit=0", None, "query.limit: is at least 1, not '0'"),
        ("GET", "/v1/tables?limit=1001", None, "query.limit: is at most 1000, not '1001'"),
        ("GET", "/v1/tables?blocked=maybe", None, "query.blocked: needs true or false, not 'maybe'"),
        ("GET", f"/v1/tables?id={'a' * 1001}", None, "query.id: has at most 1000 characters"),
        ("GET", "/v1/tables?mode=ACT", None, "query.mode: is one of 'observe', 'plan' or 'act', not 'ACT'"),
        ("POST", "/v1/tables/trips/pause", '{"reson": 1}', "body.reson: there is no such field"),
        ("POST", "/v1/tables/trips/pause", '{"reason": 1}', "body.reason: needs a text, not 1"),
        ("POST", "/v1/tables/trips/pause", "[]", "body: needs an object, not []"),
    ],
)
def test_an_invalid_value_is_named_in_plain_words(
    served: ServedDaemon, method: str, path: str, body: str | None, said: str
) -> None:
    """The words of the library that checks it are of Python."""
    answer = served.api.request(method, path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (422, said)
