"""Limits on the body of a request."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.service.config.daemon.http_limits import BODY_BYTES
from lakewarden.service.http.guard.protocol import ADMISSION, CONNECTION

SMALL_BYTES = 64 * 2**10
"""The limit for requests of operators and writers, in bytes."""

_DIGITS = 18


class TooLargeError(HTTPException):
    """The body is larger than allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body of a request has at most {limit} bytes")


class BodyLimit:
    """Middleware: if a body is announced or becomes too large, reading it raises TooLargeError.

    Only hooks, below the path `hooks`, may be larger. `kept` limits the part of them that is kept.
    """

    def __init__(self, app: ASGIApp, *, hooks: str) -> None:
        self._app = app
        self._hooks = hooks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count the bytes of its body."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        limit = BODY_BYTES if str(scope.get("path", "")).startswith(self._hooks) else SMALL_BYTES
        announced = headers.get("content-length", "0")  # the server has refused a value that is no number
        came = 0

        async def limited() -> Message:
            nonlocal came
            if len(announced) > _DIGITS or int(announced) > limit:
                raise TooLargeError(limit)
            message = await receive()
            came += len(message.get("body", b""))
            if came > limit:
                raise TooLargeError(limit)
            return message

        await self._app(scope, limited, send)


async def kept(request: Request, *, most: int) -> tuple[bytes, bool]:
    """Read a body to its end, and return its beginning, and whether that is all.

    It is read to the end so that its sender reads the answer. At most `most` bytes are kept. Raises TooLargeError, and
    ClientDisconnect if the sender disconnects first.
    """
    state: Mapping[str, object] = request.scope.get("state", {})
    admission, connection = state.get(ADMISSION), state.get(CONNECTION)
    body, whole = bytearray(), True
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        fits = chunk[: most - len(body)]
        whole = whole and len(fits) == len(chunk)
        if fits:
            body += fits
            if admission is not None:
                admission.keeps_body(connection, len(fits))  # type: ignore[attr-defined]
        if not message.get("more_body", False):
            return bytes(body), whole
