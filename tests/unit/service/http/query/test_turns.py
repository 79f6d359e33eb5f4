"""Requests about all tables come one after the other, and not too many of them wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.http.api import build_api
from lakewarden.service.http.errors import add_error_handlers, as_it_is
from lakewarden.service.http.query.steps import FROM_MEMORY, FROM_THE_STORE, in_turns, stepped
from lakewarden.service.http.server import HttpServer
from tests.unit.service.http.conftest import ServedDaemon

_MAY_WAIT = 32


class _Held:
    """An application with one route about all tables, which answers when it is told to, and one about one table."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.released = threading.Event()
        self.most = self._under_way = 0
        self.app = FastAPI()
        self.app.router.route_class = stepped(in_turns())
        add_error_handlers(self.app, as_it_is)

        @self.app.get("/v1/tables")
        def tables() -> str:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            self.begun.release()
            assert self.released.wait(60)
            self._under_way -= 1
            return "all"

        @self.app.get("/")
        def page() -> str:
            """Its curves wait for the store."""
            self.begun.release()
            assert self.released.wait(60)
            return "page"

        @self.app.get("/v1/config")
        def config() -> str:
            return "config"

        @self.app.post("/v1/approvals")
        def adopt() -> str:
            self.begun.release()
            assert self.released.wait(60)
            return "adopted"

        @self.app.get("/v1/tables/{table}")
        def table(table: str) -> str:
            return table


@pytest.fixture
def held() -> Iterator[_Held]:
    made = _Held()
    yield made
    made.released.set()


def test_beyond_those_that_wait_the_answer_is_503_and_other_requests_are_answered(held: _Held) -> None:
    """One request is answered at a time. The others wait, as many as may. A client is told when to ask again."""
    with (
        HttpServer(held.app, name="api", host="127.0.0.1", port=0) as server,
        ThreadPoolExecutor(_MAY_WAIT + 2) as clients,
        httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}", timeout=60, limits=httpx.Limits(max_connections=None)
        ) as api,
    ):

        def ask() -> Future[httpx.Response]:
            return clients.submit(api.get, "/v1/tables")

        first = ask()
        assert held.begun.acquire(timeout=60)
        others = [ask() for _ in range(_MAY_WAIT + 1)]
        (refused,), _ = wait(others, timeout=60, return_when=FIRST_COMPLETED)
        assert api.get("/v1/tables/trips").json() == "trips"
        held.released.set()
        answers = [one.result(60).status_code for one in (first, *others)]

        assert refused.result().status_code == 503
        assert refused.result().headers["Retry-After"] == "1"
        assert sorted(answers) == [200] * (_MAY_WAIT + 1) + [503]
        assert held.most == 1
        assert api.get("/v1/tables").status_code == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/v1/approvals")])
def test_a_list_of_tables_waits_for_no_request_that_waits_itself(held: _Held, method: str, path: str) -> None:
    """A store that is away, or a busy control thread, would keep an operator from the tables."""
    with (
        HttpServer(held.app, name="api", host="127.0.0.1", port=0) as server,
        ThreadPoolExecutor(1) as clients,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as api,
    ):
        waits = clients.submit(api.request, method, path)
        assert held.begun.acquire(timeout=60)
        assert api.get("/v1/config").json() == "config"
        held.released.set()
        assert waits.result(60).status_code == 200


def test_every_question_that_names_no_table_takes_turns_or_is_known_to_be_cheap(served: ServedDaemon) -> None:
    """Its answer may be about ten thousand tables. A new one must be judged here."""
    asked = {
        route.path
        for route in build_api(served.composed.status, clock=SystemClock(), hook_heard=lambda *_: None).routes
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()) and "{" not in route.path
    }
    a_page_or_few = {"/v1/audit", "/v1/replicas", "/v1/runs", "/runs", "/acts", "/sign-in"}

    assert asked - a_page_or_few == (FROM_MEMORY | FROM_THE_STORE) - {"/v1/registrations/{id}"}
