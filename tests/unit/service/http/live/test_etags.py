"""Asking again with the tag of the last answer."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest

from lakewarden.service.model.access import Caller, Role
from tests.unit.service.http.conftest import ServedDaemon

POLLED = [
    "/v1/tables",
    "/v1/tables/trips",
    "/v1/tables/trips/timeline",
    "/v1/tables/trips/explain",
    "/v1/tables/trips/policies",
    "/v1/runs",
    "/v1/replicas",
    "/v1/config",
]


def _again(served: ServedDaemon, path: str, tag: str) -> httpx.Response:
    return served.api.get(path, headers={"if-none-match": tag})


@pytest.mark.parametrize("path", POLLED)
def test_a_client_that_has_the_answer_gets_none(served: ServedDaemon, path: str) -> None:
    """That holds although ages grow. Without the tag, or with another one, it gets the answer."""
    first = served.api.get(path)
    tag = first.headers["etag"]

    second = _again(served, path, f'"x", {tag}')

    assert (second.status_code, second.content, second.headers["etag"]) == (304, b"", tag)
    assert tag.startswith('W/"')
    assert "private" in first.headers["cache-control"]
    assert _again(served, path, '"x"').status_code == 200
    assert _again(served, path, tag.replace('"', "")).status_code == 200


def test_no_answer_has_another_tag_only_because_time_goes_on(served: ServedDaemon) -> None:
    """Every list and every thing of the API, beside a plan that grows old and a run that has ended."""
    served.lake.plan_compaction()
    served.api.post("/v1/tables/trips/services/clean/runs")
    run = served.moments.ending().id
    names = {"table": "trips", "run": run, "service": "compaction"}
    paths = [
        re.sub(r"\{(\w+)\}", lambda found: names.get(found.group(1), "none"), path)
        for path, methods in served.api.get("/openapi.json").json()["paths"].items()
        if path.startswith("/v1/") and "get" in methods
    ]
    tagged = [path for path in paths if "etag" in served.api.get(path).headers]

    def matches(path: str) -> bool:
        """Whether the tag matches once the daemon has come to rest after the run."""
        return any(_again(served, path, served.api.get(path).headers["etag"]).status_code == 304 for _ in range(20))

    assert [path for path in tagged if not matches(path)] == []
    assert {"/v1/fleet/status", *POLLED} <= set(tagged)


def test_a_change_is_a_new_tag(served: ServedDaemon) -> None:
    """A run and a pause are changes of the table."""
    paths = ["/v1/tables", "/v1/tables/trips", "/v1/tables/trips/explain", "/v1/runs"]
    before = {path: served.api.get(path).headers["etag"] for path in paths}

    served.api.post("/v1/tables/trips/services/compaction/runs")
    served.moments.ending()
    served.api.post("/v1/tables/trips/pause", json={"reason": "hands off"}).raise_for_status()

    assert [_again(served, path, tag).status_code for path, tag in before.items()] == [200] * len(paths)


def test_a_reason_that_looks_like_an_age_is_a_change(served: ServedDaemon) -> None:
    """Only members of the body are left out. A text with the same letters counts."""
    tags = set()
    for number in (1, 2):
        served.api.post("/v1/tables/trips/pause", json={"reason": f'"run_seconds":{number}'}).raise_for_status()
        tags.add(served.api.get("/v1/tables/trips").headers["etag"])

    assert len(tags) == 2


def test_a_tag_is_for_the_rights_of_a_caller(make_served: Callable[..., ServedDaemon]) -> None:
    """A caller with other tables never gets 304 for the answer of another one."""
    callers = {
        b"all": Caller(name="ann", role=Role.VIEWER, key="1"),
        b"some": Caller(name="bob", role=Role.VIEWER, tables=("tri*",), key="2"),
    }
    served = make_served(identify=callers.get)
    served.start()
    served.look()

    tags = {key: served.api.get("/v1/tables", headers={"x-api-key": key}).headers["etag"] for key in ("all", "some")}

    assert tags["all"] != tags["some"]


def test_an_error_has_no_tag(served: ServedDaemon) -> None:
    """It must be asked for again."""
    assert "etag" not in served.api.get("/v1/tables/none").headers
