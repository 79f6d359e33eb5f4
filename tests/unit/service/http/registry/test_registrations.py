"""Tables that are registered, changed and removed over REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import TableId
from lakewarden.service.http.api import build_api
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.model.access import Caller
from lakewarden.service.model.registrations import (
    Expected,
    NotRegisteredError,
    OtherRegistrationError,
    Registration,
    RegistrationRefusedError,
    any_registration,
)
from tests.support.doubles.fake import FAKE
from tests.unit.service.http.conftest import ServedDaemon, serving

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Registry:
    """Registers in a dictionary. It has one table that it refuses."""

    def __init__(self) -> None:
        self.known: dict[str, Registration] = {}
        self.asked = 0

    def registrations(self) -> Sequence[Registration]:
        return [*self.known.values()]

    def register(self, entry: Mapping[str, Any], *, caller: Caller) -> Registration:
        self.asked += 1
        if entry["path"] == "/taken":
            raise RegistrationRefusedError("the table at /taken is registered already", remedy="take another place")
        return self._kept(TableId(entry["id"]), entry, caller)

    def change(
        self, table: TableId, entry: Mapping[str, Any], *, caller: Caller, expected: Expected = any_registration
    ) -> Registration:
        self._look(table, expected)
        return self._kept(table, entry, caller)

    def remove(self, table: TableId, *, caller: Caller, expected: Expected = any_registration) -> None:
        self._look(table, expected)
        del self.known[table]

    def _look(self, table: TableId, expected: Expected) -> None:
        if table not in self.known:
            raise NotRegisteredError(f"no table {table!r} is registered over the API")
        if not expected(self.known[table]):
            raise OtherRegistrationError("it has changed", remedy="read it again")

    def _kept(self, table: TableId, entry: Mapping[str, Any], caller: Caller) -> Registration:
        made = Registration(table=table, entry={**entry}, by=caller.name, at=AT)
        self.known[table] = made
        return made


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def api(served: ServedDaemon, registry: Registry) -> Iterator[httpx.Client]:
    """Yield a client of a daemon that registers tables."""
    app = build_api(
        served.composed.status,
        clock=SystemClock(),
        hook_heard=lambda *_: None,
        formats={FAKE.name: FAKE},
        configuration=ConfigurationPart(registering=registry),
    )
    with serving(app) as client:
        yield client


def test_a_table_is_registered_changed_and_removed(api: httpx.Client) -> None:
    """Each answer has what was said of the table, and no more."""
    asked = {"id": "orders", "path": "/lake/orders", "services": {"clean": False, "compaction": {"grace": "1m"}}}
    made = api.post("/v1/registrations", json=asked)
    assert (made.status_code, made.json()["entry"], made.json()["problem"]) == (201, asked, None)
    assert api.get("/v1/registrations").json()["items"] == [made.json()]

    changed = api.put("/v1/registrations/orders", json={"path": "/lake/orders", "mode": "act"})
    assert (changed.status_code, changed.json()["entry"]["mode"]) == (200, "act")
    assert api.get("/v1/registrations/orders").json() == changed.json()

    assert api.delete("/v1/registrations/orders").status_code == 204
    assert api.get("/v1/registrations/orders").status_code == 404
    assert api.delete("/v1/registrations/orders").status_code == 404


def test_what_another_person_has_changed_meanwhile_is_not_overwritten(api: httpx.Client) -> None:
    """The tag of what was read is sent as `If-Match`. With another tag nothing is changed, and nothing removed."""
    place = "/v1/registrations/orders"
    made = api.post("/v1/registrations", json={"id": "orders", "path": "/lake/orders"})
    read = api.get(place).headers["ETag"]
    assert made.headers["ETag"] == read

    changed = api.put(place, json={"path": "/lake/orders", "mode": "plan"}, headers={"If-Match": read})
    now = api.get(place).headers["ETag"]
    assert (changed.status_code, changed.headers["ETag"]) == (200, now)
    assert now != read

    for refused in (
        api.put(place, json={"path": "/lake/orders", "mode": "act"}, headers={"If-Match": read}),
        api.delete(place, headers={"If-Match": read}),
        api.delete(place, headers={"If-Match": "no tag at all"}),
        api.delete(place, headers={"If-Match": ""}),
    ):
        assert (refused.status_code, refused.json()["code"], refused.json()["remedy"]) == (
            412,
            "changed",
            "read it again",
        )
    assert api.get(place).json()["entry"]["mode"] == "plan"

    assert api.put(place, json={"path": "/lake/orders"}, headers={"If-Match": "*"}).status_code == 200
    last = api.get(place).headers["ETag"]
    assert api.delete(place, headers={"If-Match": f'"another", {last}'}).status_code == 204


def test_a_refusal_says_why_and_what_to_do(api: httpx.Client) -> None:
    """It is 409: the request is sound, and the table cannot be registered."""
    refused = api.post("/v1/registrations", json={"id": "a", "path": "/taken"})
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["remedy"]) == (409, "refused", "take another place")


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "/x", "options": {}},
        {"path": "/x", "match": "/x/*"},
        {"path": "/x", "services": {"clean": {"options": {}}}},
        {"path": "/x", "services": {"clean": {"session": {}}}},
        {"id": "a"},
        {"path": ""},
        {"path": "/x", "mode": "delete"},
    ],
)
def test_keys_that_are_for_the_configuration_alone_are_refused(
    api: httpx.Client, registry: Registry, entry: dict[str, Any]
) -> None:
    """Options can hold classes, addresses and places of secrets. None of them comes from a request."""
    assert api.post("/v1/registrations", json=entry).status_code == 422
    assert registry.asked == 0


def test_a_daemon_without_a_configuration_registers_nothing(served: ServedDaemon) -> None:
    """It has nowhere to read policies and roots from."""
    refused = served.api.post("/v1/registrations", json={"path": "/x"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_supported")
    assert served.api.get("/v1/registrations").json() == {"items": [], "next": None}


# What patterns and catalogs found, over REST.


def test_a_daemon_without_patterns_has_no_sources(served: ServedDaemon) -> None:
    """There is nothing to list, and asking for it is no error."""
    assert served.api.get("/v1/discovery").json() == {"items": [], "next": None}
    asked = served.api.post("/v1/discovery/list")
    assert (asked.status_code, asked.json()) == (202, {"sources": 0})
