"""Every route of every port, tried with each role and with none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from docs.nothing import empty_room
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import guarding, role_of
from lakewarden.service.http.api import build_api
from lakewarden.service.http.management import build_management
from lakewarden.service.http.query.steps import stepped
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.reporting.metrics import Metrics
from tests.unit.service.http.conftest import ServedDaemon

_VALUES = {
    "table": "trips",
    "service": "clean",
    "run": "none",
    "hold": "none",
    "path_of_catalog": "x",
    "name": "page.css",
}
_OPEN = {"/livez": (200,), "/readyz": (200, 503), "/sign-in": (200, 401), "/sign-out": (303,), "/static/{name}": (200,)}
"""The paths that need no key, and what they answer. POST /sign-in judges the key that is in its body."""


def identify(key: bytes) -> Caller | None:
    """Know a key for each role: its name. `role@pattern` is for some tables."""
    role, _, tables = key.decode("latin-1").partition("@")
    if role not in set(Role):
        return None
    return Caller(name=f"the {role}", role=Role(role), tables=(tables or "*",), key="1")


def _apps(plane: ControlPlane) -> list[FastAPI]:
    return [
        build_api(plane, clock=SystemClock(), hook_heard=lambda *_: None, identify=identify),
        build_management(plane, Metrics([]).registry, identify=identify),
    ]


@pytest.fixture(scope="module")
def apps() -> Iterator[list[FastAPI]]:
    """Return the application of each port, over a running daemon without a table."""
    composed = empty_room()
    composed.daemon.start()
    thread = threading.Thread(target=composed.daemon.run)
    thread.start()
    yield _apps(composed.status)
    composed.daemon.stop()
    thread.join()


ROUTES = [
    pytest.param(port, route, method, id=f"{app.title}-{method}-{route.path}")
    for port, app in enumerate(_apps(empty_room().status))
    for route in app.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
]


def _path(route: APIRoute) -> str:
    path = route.path.replace(":path}", "}")
    for name, value in _VALUES.items():
        path = path.replace("{" + name + "}", value)
    return path


@pytest.mark.parametrize(("port", "route", "method"), ROUTES)
@pytest.mark.parametrize("role", [None, *Role])
def test_every_route_takes_exactly_the_roles_that_it_declares(
    apps: list[FastAPI], port: int, route: APIRoute, method: str, role: Role | None
) -> None:
    """No key is 401 and a lesser role is 403, before anything else is found out. Probes, and what a person needs to
    sign in, need no key.
    """
    needed, _ = role_of(route)
    if route.path == "/v1/drain":  # it ends its daemon, so it has one of its own
        apps = _apps(empty_room().status)
    status = _answer(apps[port], method, _path(route), key=role).status_code

    if needed is None:
        assert status in _OPEN[route.path]
    elif role is None:
        assert status == 401
    else:
        assert (status == 403) == (not role.includes(needed))
        assert status != 401


@pytest.mark.parametrize("path", ["/v1", "/openapi.json", "/v1/tables/", "/nothing", "//v1/tables", "/V1/tables"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "TRACE"])
def test_what_is_no_route_needs_a_key_too(apps: list[FastAPI], path: str, method: str) -> None:
    """A client without a key finds nothing out about the daemon."""
    assert _answer(apps[0], method, path, key=None).status_code == 401
    assert _answer(apps[0], method, path, key=Role.HOOK).status_code in (200, 404, 405)


def test_a_route_without_a_role_cannot_be_made() -> None:
    """A new route cannot be forgotten."""
    app = FastAPI()
    app.router.route_class = stepped(guarding(lambda *_: None))
    with pytest.raises(TypeError, match="declares no role"):

        @app.get("/v1/new")
        def new() -> None: ...


def _answer(app: FastAPI, method: str, path: str, *, key: str | None) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        headers = {} if key is None else {"X-API-Key": str(key)}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


# -- over a served daemon


@pytest.fixture
def served(start_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    return start_served(identify=identify)


def _asked(served: ServedDaemon, method: str, path: str, key: str, body: Any = None) -> httpx.Response:
    return served.api.request(method, path, json=body, headers={"Authorization": f"Bearer {key}"})


def test_a_key_for_some_tables_sees_and_changes_no_other(served: ServedDaemon) -> None:
    """Lists are without the other tables. A request about one is refused as one about a table that is not there."""
    assert [one["id"] for one in _asked(served, "GET", "/v1/tables", "viewer@tri*").json()["items"]] == ["trips"]
    assert _asked(served, "GET", "/v1/tables", "viewer@sales.*").json()["items"] == []
    assert _asked(served, "POST", "/v1/tables/trips/services/clean/runs", "trigger@tri*").status_code in (200, 202)
    assert [run["table"] for run in _asked(served, "GET", "/v1/runs", "viewer@tri*").json()["items"]] == ["trips"]
    assert _asked(served, "GET", "/v1/runs", "viewer@sales.*").json()["items"] == []
    [run] = _asked(served, "GET", "/v1/runs", "viewer").json()["items"]
    assert _asked(served, "GET", f"/v1/runs/{run['id']}", "viewer@sales.*").status_code == 404

    there, nowhere = (_asked(served, "GET", f"/v1/tables/{name}", "viewer@sales.*") for name in ("trips", "nothing"))
    assert (there.status_code, nowhere.status_code) == (403, 403)
    assert there.text.replace("trips", "nothing") == nowhere.text

    assert _asked(served, "POST", "/v1/tables/trips/pause", "operator@sales.*").status_code == 403
    assert _asked(served, "POST", "/v1/pause", "operator@tri*").status_code == 403
    assert "a key for this table" in there.json()["remedy"]
    assert _asked(served, "GET", "/v1/tables/trips", "viewer").json()["paused"] is None


def test_a_hook_counts_for_the_tables_of_its_key(served: ServedDaemon) -> None:
    """A hook about another table has no effect, and the answer does not tell that the table is there."""
    body = {"basePath": str(served.lake.folder)}
    here = _asked(served, "POST", "/v1/hooks/hudi", "hook@tri*", body)
    elsewhere = _asked(served, "POST", "/v1/hooks/hudi", "hook@sales.*", body)

    assert here.json() == {"result": "accepted", "table": "trips"}
    assert elsewhere.json() == {"result": "unknown_table", "table": None}


def test_what_is_refused_is_counted(served: ServedDaemon) -> None:
    """A flood of wrong keys is seen in the metrics."""
    served.api.get("/v1/tables")
    _asked(served, "GET", "/v1/tables", "nonsense")
    _asked(served, "POST", "/v1/pause", "viewer")
    counted = {
        kind: served.metric("lakewarden_http_refused_total", port="api", kind=kind)
        for kind in ("no_key", "unknown_key", "not_allowed")
    }
    assert counted == {"no_key": 1, "unknown_key": 1, "not_allowed": 1}
