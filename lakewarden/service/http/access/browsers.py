"""Middleware that refuses what a browser sends for a page of another site."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.service.http.access.clients import client_of
from lakewarden.service.http.guard.hosts import Hosts
from lakewarden.service.http.problems import refusal_answer
from lakewarden.service.model.refusals import FOREIGN_ORIGIN, OnRefusal, Refusal


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
        self._on_refusal(refusal, client_of(scope))
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
