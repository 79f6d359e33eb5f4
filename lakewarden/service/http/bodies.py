"""What is kept of a request's body."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.service.config.http_limits import BODY_BYTES
from lakewarden.service.http.guard.protocol import DOOR, VISITOR

SMALL_BYTES = 64 * 2**10
"""What people and writers ask for is said in less."""

_DIGITS = 18


class TooLargeError(HTTPException):
    """The body is larger than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body of a request has at most {limit} bytes")


class BodyLimit:
    """Middleware under which reading a body raises TooLargeError as soon as it is announced or becomes too long.

    Hooks alone, below `hooks`, may be large: what is kept of them is `kept`'s matter.
    """

    def __init__(self, app: ASGIApp, *, hooks: str) -> None:
        self._app = app
        self._hooks = hooks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, with a body that is counted while it comes in."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        limit = BODY_BYTES if str(scope.get("path", "")).startswith(self._hooks) else SMALL_BYTES
        announced = headers.get("content-length", "0")  # the server has refused what is no number
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
    """Read a body to its end, so that its sender reads the answer, and return how it begins, and whether that is all.

    At most `most` bytes are kept. Raises TooLargeError, and ClientDisconnect where the rest does not come.
    """
    state: Mapping[str, object] = request.scope.get("state", {})
    door, visitor = state.get(DOOR), state.get(VISITOR)
    body, whole = bytearray(), True
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        fits = piece[: most - len(body)]
        whole = whole and len(fits) == len(piece)
        if fits:
            body += fits
            if door is not None:
                door.keeps_body(visitor, len(fits))  # type: ignore[attr-defined]
        if not message.get("more_body", False):
            return bytes(body), whole
