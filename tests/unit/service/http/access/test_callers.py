"""The key of a request: which header has it, and what no header can do."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from docs.nothing import empty_room
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.http.access.callers import CALLER, Callers, identified
from lakewarden.service.http.api import build_api
from lakewarden.service.http.hooks import HOOK_KEYS
from lakewarden.service.model.access import LOCAL, Caller, Role
from lakewarden.service.model.problems import ISSUER_AWAY, NO_KEY, TWO_KEYS, UNKNOWN_KEY, WELL_KNOWN_KEY, Refusal

KEY = b"lwk_an-example-of-a-key"
ALICE = Caller(name="alice", role=Role.ADMIN, key="1")

Headers = list[tuple[bytes, bytes]]


def _identify(key: bytes) -> Caller | None:
    return ALICE if key == KEY else None


def _sent(headers: Headers, path: str = "/v1/tables", *, with_keys: bool = True) -> tuple[Any, list[str]]:
    """Return the caller that the application saw (None: it was not asked), and what was refused."""
    seen: list[Caller] = []
    refused: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope[CALLER])

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(_message: Message) -> None:
        return

    guarded = Callers(
        app, identify=_identify if with_keys else None, on_refusal=lambda kind, _: refused.append(kind), hooks=HOOK_KEYS
    )
    scope = {"type": "http", "path": path, "method": "GET", "headers": headers, "client": ("192.0.2.1", 1)}
    asyncio.run(guarded(scope, receive, send))
    return (seen[0] if seen else None), refused


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"bearer   " + KEY + b" ")],
        [(b"x-api-key", KEY)],
        [(b"x-api-key", KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"x-api-key", KEY), (b"authorization", b"Basic YWxpY2U6c2VjcmV0")],
    ],
)
def test_a_key_is_in_one_of_two_headers(headers: Headers) -> None:
    """The same key twice is one key. Another scheme is that of a proxy."""
    assert _sent(headers) == (ALICE, [])


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ([], NO_KEY),
        ([(b"authorization", b"Basic " + KEY)], NO_KEY),
        ([(b"authorization", KEY)], NO_KEY),
        ([(b"cookie", b"X-API-Key=" + KEY)], NO_KEY),
        ([(b"authorization", b"Bearer")], UNKNOWN_KEY),
        ([(b"x-api-key", b"")], UNKNOWN_KEY),
        ([(b"x-api-key", KEY + b"x")], UNKNOWN_KEY),
        ([(b"x-api-key", KEY.upper())], UNKNOWN_KEY),
        ([(b"x-api-key", KEY), (b"x-api-key", b"another")], TWO_KEYS),
        ([(b"x-api-key", KEY), (b"authorization", b"Bearer another")], TWO_KEYS),
        ([(b"hudi-callback-key", KEY)], NO_KEY),
    ],
)
def test_anything_else_is_refused(headers: Headers, refusal: Refusal) -> None:
    """A request has one meaning. The header of Hudi counts for hooks of Hudi alone."""
    assert _sent(headers) == (None, [refusal.kind])


def test_hudis_header_counts_at_its_hook_and_its_default_never() -> None:
    """Hudi sends the header always, with its public default if its user set none."""
    default = (b"hudi-callback-key", b"hudi_write_commit_http_callback")
    hook = "/v1/hooks/hudi"

    assert _sent([(b"hudi-callback-key", KEY)], hook) == (ALICE, [])
    assert _sent([default], hook) == (None, [WELL_KNOWN_KEY.kind])
    assert _sent([default, (b"x-api-key", KEY)], hook) == (ALICE, [])
    assert _sent([(b"hudi-callback-key", b"another"), (b"x-api-key", KEY)], hook) == (None, [TWO_KEYS.kind])
    assert _sent([(b"hudi-callback-key", KEY)], "/v1/hooks/directory") == (None, [NO_KEY.kind])


def test_without_authentication_every_request_is_that_of_the_machine() -> None:
    """A key that is sent all the same is not looked at."""
    assert _sent([(b"x-api-key", b"anything")], with_keys=False) == (LOCAL, [])


_NAMES = st.sampled_from(
    [b"authorization", b"x-api-key", b"hudi-callback-key", b"host", b"origin", b"lakewarden-forwarded-for"]
)
_VALUES = st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda value: b"Bearer " + value))
_HEADERS = st.lists(st.tuples(_NAMES, _VALUES), max_size=6)
_PATHS = st.sampled_from(
    ["/v1/tables", "/v1/pause", "/v1/hooks/hudi", "/openapi.json", "/nothing", "/v1/tables/x/pause"]
)
_APP = build_api(empty_room().status, clock=SystemClock(), hook_heard=lambda _heard: None, identify=_identify)


@given(headers=_HEADERS, path=_PATHS, method=st.sampled_from(["GET", "POST", "DELETE"]))
def test_no_header_is_an_error_or_a_role(headers: Headers, path: str, method: str) -> None:
    """Whatever the headers are, the answer is one of a refusal. Nothing but the key itself lets a request in."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("192.0.2.1", 1),
        "server": ("127.0.0.1", 8080),
        "scheme": "http",
        "state": {},
    }
    asyncio.run(_APP(scope, receive, send))
    assert len(statuses) == 1
    assert statuses[0] in (401, 403, 421)


def test_a_token_may_be_judged_by_another_machine() -> None:
    """Its request waits. A refusal of the issuer is the answer, and not the caller."""
    later: Future[Caller | Refusal] = Future()
    threading.Timer(0.1, later.set_result, (ALICE,)).start()
    assert asyncio.run(identified(lambda _: later, KEY)) == ALICE
    assert asyncio.run(identified(lambda _: ISSUER_AWAY, KEY)) is ISSUER_AWAY
    assert asyncio.run(identified(lambda _: None, KEY)) is UNKNOWN_KEY
