"""Holds on cleans: each has an id and an owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.service.model.access import Caller, Role
from tests.unit.service.http.conftest import ServedDaemon

BARRIER = "/v1/tables/trips/barrier"
KEYS = {
    b"a": Caller(name="job-a", role=Role.TRIGGER, key="a"),
    b"b": Caller(name="job-b", role=Role.TRIGGER, key="b"),
    b"o": Caller(name="olga", role=Role.OPERATOR, key="o"),
}


@pytest.fixture
def served(make_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    made = make_served(identify=KEYS.get)
    made.lake.write()
    made.start()
    made.look()
    return made


def _asked(served: ServedDaemon, who: str, method: str, path: str = BARRIER) -> Any:
    body = {"hold": "60s"} if method == "POST" else None
    return served.api.request(method, path, json=body, headers={"X-API-Key": who})


def _owners(served: ServedDaemon) -> list[str]:
    return [one["owner"] for one in _asked(served, "a", "GET").json()["items"]]


def test_a_caller_ends_its_own_holds_and_no_other(served: ServedDaemon) -> None:
    """A job that has committed does not let the cleans into the commit of another job."""
    first, second = _asked(served, "a", "POST").json(), _asked(served, "b", "POST").json()
    assert (first["owner"], second["owner"], _owners(served)) == ("job-a", "job-b", ["job-a", "job-b"])

    refused = _asked(served, "a", "DELETE", f"{BARRIER}/{second['hold']}")
    assert (refused.status_code, "belongs to job-b" in refused.json()["detail"]) == (409, True)
    assert _asked(served, "a", "DELETE").status_code == 204
    assert _owners(served) == ["job-b"]
    assert _asked(served, "a", "DELETE", f"{BARRIER}/{first['hold']}").status_code == 404
    assert _asked(served, "b", "DELETE", f"{BARRIER}/{second['hold']}").status_code == 204
    assert _owners(served) == []


def test_an_operator_ends_the_holds_of_all(served: ServedDaemon) -> None:
    """Each of them is in the audit log, with its owner."""
    for who in ("a", "b"):
        _asked(served, who, "POST")
    assert _asked(served, "o", "DELETE").status_code == 204

    assert _owners(served) == []
    said = sorted(str(act.before) for act in served.store.acts(limit=2))
    assert [" of job-a until " in said[0] or " of job-a until " in said[1], len(said)] == [True, 2]
