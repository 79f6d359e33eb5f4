"""What a browser sends for a page of another site is refused.

A browser sends what any page tells it to. It puts the host of the page into `Origin`. With DNS rebinding a page binds
its name to our address after it was loaded. Then there is no `Origin`, but `Host` has the name of the page. Senders
that are no browser send no `Origin`, and use a name that our network knows. They need no setting.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.service.http.access.callers import client_of
from lakewarden.service.http.errors import refusal_answer
from lakewarden.service.model.problems import FOREIGN_ORIGIN, UNKNOWN_HOST, OnRefusal, Refusal

_ONLY_ASKS = frozenset({"GET", "HEAD", "OPTIONS"})
_PRIVATE_NAMES = (".localhost", ".svc", ".cluster.local")
"""No public DNS server answers for these names. So a page under them is not a foreign page."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Hosts:
    """The names of one daemon."""

    def __init__(self, names: Collection[str] = ()) -> None:
        """`names` are those of the daemon, and of the pages that may send requests.

        Its addresses, the name of its machine and the names of `_PRIVATE_NAMES` need not be among them.
        """
        self._pages = {_plain(name) for name in names}
        self._names = {*self._pages, _plain(socket.gethostname())}

    def refuses(
        self, *, method: str, host: str | None, origin: str | None, site: str | None, hint: bool
    ) -> Refusal | None:
        """Return why a request is refused, by its method and its headers `Host`, `Origin` and `Sec-Fetch-Site`, or
        None.

        A `hint` that no browser sent is allowed under any name, because it changes nothing.
        """
        if (not hint or origin is not None) and not self._is_ours(host):
            return UNKNOWN_HOST
        if method in _ONLY_ASKS:
            return None
        if origin is not None and not self._is_same(origin, host):
            return FOREIGN_ORIGIN
        return FOREIGN_ORIGIN if site in ("cross-site", "same-site") and origin is None else None

    def _is_ours(self, host: str | None) -> bool:
        if host is None:  # HTTP/1.0: no current browser sends it
            return True
        name = _host(f"//{host}")
        if name is None:
            return False
        if "." not in name or name in self._names or name.endswith(_PRIVATE_NAMES):
            return True
        return _is_address(name)

    def _is_same(self, origin: str, host: str | None) -> bool:
        name = _host(origin)
        if name is None or host is None:
            return False
        return name in self._pages or _place(origin) == _place(f"{urlsplit(origin).scheme}://{host}")


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _host(address: str) -> str | None:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return None
    return None if not host else _plain(host)


def _place(address: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(address)
        return _host(address), parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None, None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class CrossOriginGuard:
    """Asks `Hosts` about every request. Requests with a path that begins as one of `hints` are hints."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, hints: Sequence[str], on_refusal: OnRefusal) -> None:
        self._app = app
        self._hosts = hosts
        self._hints = tuple(hints)
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 or 421, or pass the request on."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        self._on_refusal(refusal.kind, client_of(scope))
        await refusal_answer(scope, refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if len(headers.getlist("origin")) > 1:  # a proxy may have judged the other one
            return FOREIGN_ORIGIN
        return self._hosts.refuses(
            method=scope["method"],
            host=headers.get("host"),
            origin=headers.get("origin"),
            site=headers.get("sec-fetch-site"),
            hint=str(scope["path"]).startswith(self._hints),
        )
