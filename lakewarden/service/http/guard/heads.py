"""HEAD: the head of the answer to a GET (RFC 9110, section 9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

_STREAM = b"text/event-stream"


class HeadAsGet:
    """Middleware: a HEAD is answered as a GET. The server sends no body, because it knows the method that came.

    It asks for no stream of events, which would never end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            headers = [(name, value) for name, value in scope["headers"] if name != b"accept" or _STREAM not in value]
            scope = {**scope, "method": "GET", "headers": headers}
        await self._app(scope, receive, send)
