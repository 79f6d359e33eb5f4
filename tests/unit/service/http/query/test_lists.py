"""The lists of tables and runs: filters, pages, and parameters that do not exist."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.api import build_api
from lakewarden.service.http.query.lists import TableFilter
from lakewarden.service.http.query.pages import cut
from tests.support.daemon.daemon_harness import DaemonHarness
from tests.unit.service.http.conftest import ServedDaemon, serving

_IDS = st.sets(st.text("abc.", min_size=1, max_size=3), max_size=20)


def _status(name: str, **known: object) -> TableStatus:
    return TableStatus(table=Table(id=TableId(name), format="hudi", location=f"/lake/{name}"), **known)  # type: ignore[arg-type]


@given(ids=_IDS, limit=st.integers(1, 7))
def test_the_pages_together_have_each_table_once(ids: set[str], limit: int) -> None:
    """A client that follows the pages reads every table, in the order of the ids, and then stops."""
    statuses, seen, after = [_status(name) for name in ids], [], None
    while True:
        shown, cursor = cut(statuses, by=lambda status: status.table.id, after=after, limit=limit)
        assert len(shown) <= limit
        seen += [one.table.id for one in shown]
        if cursor is None:
            break
        assert cursor == seen[-1]
        after = cursor
    assert seen == sorted(ids)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (TableFilter(), {"sales.a", "sales.b", "stock"}),
        (TableFilter(pattern="sales.*"), {"sales.a", "sales.b"}),
        (TableFilter(blocked=True), {"sales.a"}),
        (TableFilter(failing=True), {"sales.b"}),
        (TableFilter(paused=True), {"stock"}),
        (TableFilter(pattern="s*", failing=False, paused=False), {"sales.a"}),
        (TableFilter(format="iceberg"), set()),
        (TableFilter(mode=Mode.OBSERVE, blocked=False), {"sales.b", "stock"}),
    ],
)
def test_filters_narrow_the_tables(wanted: TableFilter, found: set[str]) -> None:
    """Each filter is a condition, and all of them hold."""
    statuses = [
        _status("sales.a", decisions={Service.CLEAN: Blocked(reason="a lock is missing")}),
        _status("sales.b", failure="it cannot be read"),
        _status("stock", paused="a test"),
    ]
    assert {one.table.id for one in statuses if wanted.admits(one)} == found


def _followed(client: httpx.Client, first: str) -> list[list[str]]:
    """Return the ids of each page, by the links."""
    pages, address = [], first
    while address:
        answer = client.get(address)
        assert answer.status_code == 200
        pages.append([one["id"] for one in answer.json()["items"]])
        address = answer.links.get("next", {}).get("url", "")
    return pages


def test_the_link_of_a_page_leads_to_the_next_one_with_the_same_filters(tmp_path: Path) -> None:
    """A client needs no knowledge of the cursor."""
    harness = DaemonHarness(tmp_path, names=["b", "a", "c", "other"])
    harness.for_a_while(timedelta(seconds=10))
    app = build_api(harness.status, clock=SystemClock(), hook_heard=lambda *_: None)
    with serving(app) as client:
        assert _followed(client, "/v1/tables?limit=2&id=%3F") == [["a", "b"], ["c"]]
        assert _followed(client, "/v1/tables?limit=4") == [["a", "b", "c", "other"]]


def test_runs_are_read_in_pages(served: ServedDaemon) -> None:
    """The newest come first. A page begins after the last run of the page before, also if new runs came meanwhile."""
    ids = []
    for _ in range(3):
        served.lake.write()
        ids.append(served.api.post("/v1/tables/trips/services/compaction/runs").json()["id"])
        served.moments.ending()

    assert _followed(served.api, "/v1/runs?limit=2&service=compaction") == [ids[:0:-1], ids[:1]]
    assert _followed(served.api, "/v1/runs?table=trips&state=SUCCEEDED&state=FAILED") == [ids[::-1]]
    for query in ("service=clean", "state=QUEUED", "table=other"):
        assert _followed(served.api, f"/v1/runs?{query}") == [[]], query
    assert served.api.get("/v1/runs?after=nothing").status_code == 404


@pytest.mark.parametrize(
    "path", ["/v1/tables?formatt=hudi", "/v1/runs?states=FAILED", "/v1/tables/trips?x", "/v1/replicas?a=1"]
)
def test_a_parameter_that_does_not_exist_is_refused(served: ServedDaemon, path: str) -> None:
    """A misspelt filter would return everything. The answer names the parameter and those that exist."""
    answer = served.api.get(path)

    assert answer.status_code == 422
    unknown = path.partition("?")[2].partition("=")[0]
    assert repr(unknown) in answer.json()["detail"]
    assert answer.json()["remedy"].startswith("the route takes")


def test_a_hook_takes_any_parameter(served: ServedDaemon) -> None:
    """Its sender cannot be changed."""
    answer = served.api.post("/v1/hooks/hudi?x=1", json={"basePath": str(served.lake.folder)})

    assert answer.status_code < 400


# Parameters and keys that a route does not have, and values that it cannot read.


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
        ("GET", "/v1/runs?limit=0", None, "query.limit: is at least 1, not '0'"),
        ("GET", "/v1/tables?limit=0", None, "query.limit: is at least 1, not '0'"),
        ("GET", "/v1/tables?limit=1001", None, "query.limit: is at most 1000, not '1001'"),
        ("GET", "/v1/tables?blocked=maybe", None, "query.blocked: needs true or false, not 'maybe'"),
        ("GET", f"/v1/tables?id={'a' * 1001}", None, "query.id: has at most 1000 characters"),
        ("GET", "/v1/tables?mode=ACT", None, "query.mode: must be 'observe', 'plan' or 'act', not 'ACT'"),
        ("POST", "/v1/tables/trips/pause", '{"reson": 1}', "body.reson: there is no such field"),
        ("POST", "/v1/tables/trips/pause", '{"reason": 1}', "body.reason: needs a text, not 1"),
        ("POST", "/v1/tables/trips/pause", "[]", "body: needs an object, not []"),
        ("POST", "/v1/tables/trips/pause", "x", "body: is not JSON: Expecting value"),
    ],
)
def test_an_invalid_value_is_named_in_plain_words(
    served: ServedDaemon, method: str, path: str, body: str | None, said: str
) -> None:
    """The words of the library that checks it are of Python."""
    answer = served.api.request(method, path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (422, said)
