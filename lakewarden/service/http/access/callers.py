"""Middleware that finds the caller of a request by its API key or token, or refuses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from urllib.parse import urlencode

import structlog
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.planners.hooks import HookKey
from lakewarden.service.events import Sampler
from lakewarden.service.http.errors import refusal_answer
from lakewarden.service.model.access import LOCAL, Caller
from lakewarden.service.model.problems import (
    ISSUER_AWAY,
    NO_KEY,
    TWO_KEYS,
    UNKNOWN_KEY,
    WELL_KNOWN_KEY,
    OnRefusal,
    Refusal,
)

# The addresses of clients, and what becomes of their refusals: they are counted, and logged a few times a minute.

log = structlog.get_logger(__name__)

Count = Callable[[str, str], None]
"""Counts one refusal of a port, by its kind."""


def uncounted(*_refusal: str) -> None:
    """Count no refusal."""


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request. Empty if it is not known."""
    return str((scope.get("client") or ("",))[0])


def told_of(port: str, count: Count) -> OnRefusal:
    """Return the function that counts and logs the refusals of a port."""
    sampler = Sampler()

    def refused(kind: str, sender: str) -> None:
        count(port, kind)
        withheld = sampler.admit(kind)
        if withheld is not None:
            log.warning("http_refused", port=port, kind=kind, sender=sender, not_told_before=withheld)

    return refused


CALLER = "lakewarden.caller"
"""The key in an ASGI scope for the caller of its request."""

KEY_HEADER = "X-API-Key"

KEY_COOKIE = "lakewarden-key"
"""The cookie with the key of a person who has signed in. A key in a header goes before it."""

Identify = Callable[[bytes], Caller | Refusal | Future[Caller | Refusal] | None]
"""Returns the caller that a key or a token identifies, or why it is refused. None if it does not count. A future if
another machine must be asked.
"""

_ASKED_SECONDS = 12.0
"""How long a request waits for that machine: two questions of five seconds, and a little more."""

_SCHEME = "bearer"


class Callers:
    """Puts the caller into the scope of every request. Without `identify` every request is that of `LOCAL`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Identify | None,
        on_refusal: OnRefusal,
        hooks: Mapping[str, HookKey],
        open_paths: Collection[str] = (),
        open_below: str | None = None,
        sign_in: str | None = None,
    ) -> None:
        """`hooks` are the paths of hooks with senders that send a key in a header of their own.

        `open_paths` need no key, and neither do the paths that begin with `open_below`. Nothing that these paths answer
        depends on the caller. `sign_in` is the page where a browser without a key is led to.
        """
        self._app = app
        self._identify = identify
        self._on_refusal = on_refusal
        self._hooks = hooks
        self._open = frozenset(open_paths)
        self._open_below = open_below
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on with its caller."""
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        caller = LOCAL if self._identify is None else await self._caller(scope, self._identify)
        if isinstance(caller, Refusal):
            self._on_refusal(caller.kind, client_of(scope))
            if self._sign_in is not None and shows_pages(scope):
                await RedirectResponse(f"{self._sign_in}?{_led_from(scope)}", 303)(scope, receive, send)
                return
            answer = refusal_answer(scope, caller, headers={"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)
            return
        scope[CALLER] = caller
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._open or (self._open_below is not None and path.startswith(self._open_below))

    async def _caller(self, scope: Scope, identify: Identify) -> Caller | Refusal:
        key = self._key(scope)
        return key if isinstance(key, Refusal) else await identified(identify, key.encode("latin-1"))

    def _key(self, scope: Scope) -> str | Refusal:
        headers, hook = Headers(scope=scope), self._hooks.get(scope["path"])
        keys = {*map(_of_bearer, headers.getlist("authorization")), *headers.getlist(KEY_HEADER)} - {None}
        if hook is not None:  # Hudi sends its header always, also beside a header of its user
            of_hook = set(headers.getlist(hook.header))
            if not keys and of_hook == {hook.well_known}:
                return WELL_KNOWN_KEY
            keys |= of_hook - {hook.well_known}
        elif not keys:
            keys = {cookie_parser(headers.get("cookie", "")).get(KEY_COOKIE)} - {None, ""}
        if len(keys) != 1:
            return TWO_KEYS if keys else NO_KEY
        (key,) = keys
        return str(key)


async def identified(identify: Identify, key: bytes) -> Caller | Refusal:
    """Return the caller of a key or a token, or why it is refused. Waits for an issuer that must be asked."""
    answer = identify(key)
    if isinstance(answer, Future):
        try:
            async with asyncio.timeout(_ASKED_SECONDS):
                answer = await asyncio.shield(asyncio.wrap_future(answer))
        except TimeoutError:
            return ISSUER_AWAY
    return answer or UNKNOWN_KEY


def shows_pages(scope: Scope) -> bool:
    """Whether a person asks by a browser for a page. A script of a page sends another `Accept`."""
    return scope["method"] == "GET" and reads_pages(scope)


def reads_pages(scope: Scope) -> bool:
    """Whether a browser shows the answer to a person, also that to a form."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def _led_from(scope: Scope) -> str:
    query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    return urlencode({"to": scope["raw_path"].decode("latin-1") + query})


def _of_bearer(header: str) -> str | None:
    """Return the key in an `Authorization` header. None for another scheme, which a proxy may have left there."""
    scheme, _, key = header.strip().partition(" ")
    return key.strip() if scheme.lower() == _SCHEME else None
