"""Errors of the pages: a person reads a page, a program reads problem details."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.http.access.callers import KEY_COOKIE
from lakewarden.service.http.api import build_api
from lakewarden.service.http.errors import problem_answer
from lakewarden.service.http.pages.answer import ProblemPages
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.problems import MEDIA_TYPE
from tests.unit.service.http.conftest import ServedDaemon

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/no/such/page", 404, "no route with this path"),
        ("/tables/none", 404, "table &#39;none&#39; is not registered"),
        ("/runs/none", 404, "no run none"),
        ("/?sort=best", 422, "query.sort"),
        ("/?colour=1", 422, "colour"),
        ("/?page=0", 422, "query.page"),
        ("/tables/trips?span=2y", 422, "query.span"),
        ("/runs?state=lost", 422, "query.state"),
        ("/runs?service=tidy", 422, "query.service"),
        ("/tables/a%00b", 404, "cannot be printed"),
        ("/tables/%3Cimg%20src=x%20onerror=alert(1)%3E", 404, "&lt;img src=x onerror=alert(1)&gt;"),
        ("/sign-out", 405, "does not have this method"),
    ],
)
def test_a_browser_reads_a_page_about_what_is_wrong(served: ServedDaemon, path: str, status: int, said: str) -> None:
    """It has the status and the text of the problem, escaped, and the guards of every page. A program gets JSON."""
    page, problem = served.api.get(path, headers=BROWSER), served.api.get(path)

    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in page.text
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert '<a href="/">All tables</a>' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert page.headers.get("allow") == problem.headers.get("allow")
    assert (problem.status_code, problem.headers["content-type"]) == (status, MEDIA_TYPE)


@pytest.mark.parametrize(
    "path", ["/v1/none", "/v1", "/v1/tables/none", "/v1/runs?colour=1", "/v1/tables/a%00b", "/static/none.js"]
)
def test_the_api_answers_a_browser_as_it_answers_all(served: ServedDaemon, path: str) -> None:
    """A developer who looks at the API with a browser sees what a client gets."""
    answer = served.api.get(path, headers=BROWSER)

    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["status"] == answer.status_code


def test_a_refused_key_is_shown_with_its_id_and_the_remedy(make_served: Callable[..., ServedDaemon]) -> None:
    """An operator for whom an administrator must do something can say which key it is about."""
    vera = Caller(name="vera", role=Role.VIEWER, key="k-2")
    served = make_served(identify=lambda key: vera if key == b"vera's" else None)
    served.start()
    served.look()

    page = served.api.get("/acts", headers={**BROWSER, "cookie": f"{KEY_COOKIE}=vera's"})

    assert page.status_code == 403
    assert "this needs the role admin" in page.text
    assert "<code>k-2</code>" in page.text
    assert "What to do: " in page.text
    assert 'action="/sign-out"' in page.text, "an error leads out"
    assert "<h1>Not permitted</h1>" in page.text


@given(
    detail=st.text(),
    remedy=st.none() | st.text(),
    path=st.sampled_from(["/x", "/v1x", "/v1/x", "/v1", "/openapi.json", "/openapi.jsonx"]),
)
def test_no_text_of_a_problem_is_html(detail: str, remedy: str | None, path: str) -> None:
    """Names in it come from senders. Only paths of programs are answered to programs."""
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"accept", b"text/html")]}
    answer = problem_answer(scope, status=404, code="not_found", detail=f"<b>{detail}", remedy=remedy)

    shown = SHOW(scope, answer)

    assert (shown is answer) == (path in ("/v1/x", "/v1", "/openapi.json"))
    if shown is not answer:
        assert b"<b>" not in bytes(shown.body)


SHOW = ProblemPages("/v1", "/openapi.json")


HOSTILE = (
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-05-01",
    "zzz",
    "-1",
    "9" * 30,
    "nan",
    "\udcff",
    "\x00",
    "*[",
)


def test_no_value_of_a_parameter_is_an_error_of_a_page(served: ServedDaemon) -> None:
    """Each page takes it, or says in plain words what is wrong, with every parameter that it has."""
    app = build_api(served.composed.status, clock=SystemClock(), hook_heard=lambda *_: None)
    pages = [
        route
        for route in app.routes
        if isinstance(route, APIRoute) and not route.include_in_schema and route.methods == {"GET"}
    ]
    asked = 0
    for route in pages:
        path = route.path.format(table="trips", run="none", name="page.css")
        for name in [one.alias for one in route.dependant.query_params]:
            for value in HOSTILE:
                query = f"{name}={quote(value, errors='surrogateescape')}"
                answer = served.api.get(f"{path}?{query}", headers=BROWSER)
                assert answer.status_code < 500, f"{path}?{query}"
                assert "Input should" not in answer.text, f"{path}?{query}"
                asked += 1

    assert asked > 12 * len(HOSTILE)


@pytest.mark.parametrize("body", [b"&" * 1000, b"a=b&" * 1000, b"key=%ff", b"key=\xff\x00", b"%", b"key=a%0d%0ab", b""])
@pytest.mark.parametrize("guarded", [True, False])
def test_no_form_is_an_error_of_the_daemon(
    make_served: Callable[..., ServedDaemon], body: bytes, *, guarded: bool
) -> None:
    """A browser reads a page about what is wrong. No cookie is made of it."""
    served = make_served(identify=(lambda _: None) if guarded else None)
    form = {"content-type": "application/x-www-form-urlencoded"}

    answer = served.api.post("/sign-in", content=body, headers={**BROWSER, **form})

    assert answer.status_code == (400 if body.count(b"&") == 1000 else 401 if guarded else 303)
    assert answer.status_code == 303 or answer.headers["content-type"].startswith("text/html")
    assert "set-cookie" not in answer.headers
