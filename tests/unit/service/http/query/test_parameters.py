"""Parameters and keys that a route does not have, and values that it cannot read."""

from __future__ import annotations

import pytest

from tests.unit.service.http.conftest import ServedDaemon

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("body", ["{", "[" * 30_000, '"\\ud800"', "\xff", "null"])
def test_a_body_that_is_no_json_gets_the_answer_of_the_route(served: ServedDaemon, body: str) -> None:
    """It is no error of the daemon."""
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
