"""Middleware that turns away what a browser sends for somebody else's page."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.service.http.answers import Answer
from lakewarden.service.http.guard.hosts import Hosts
from lakewarden.service.http.schemas import ErrorAnswer, ErrorBody
from lakewarden.service.model.refusals import FOREIGN_ORIGIN, Refusal, Turned


class NoStrangersPages:
    """Asks `Hosts` about every request. Hooks, below `hooks`, are hints."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, hooks: str, turned: Turned) -> None:
        self._app = app
        self._hosts = hosts
        self._hooks = hooks
        self._turned = turned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 or 421, or hand the request on."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        self._turned(refusal, str((scope.get("client") or ("",))[0]))
        body = ErrorAnswer(error=ErrorBody(code=refusal.code, message=refusal.message, remedy=refusal.remedy))
        await Answer(body.model_dump(), refusal.status)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if len(headers.getlist("origin")) > 1:  # a proxy may have judged the other one
            return FOREIGN_ORIGIN
        return self._hosts.refuses(
            method=scope["method"],
            host=headers.get("host"),
            origin=headers.get("origin"),
            site=headers.get("sec-fetch-site"),
            hint=str(scope["path"]).startswith(self._hooks),
        )
