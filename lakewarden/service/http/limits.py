"""What keeps a request from costing more than it may."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class TooLargeError(HTTPException):
    """The body is larger than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body of a request has at most {limit} bytes")


class BodyLimit:
    """Middleware under which reading a body raises TooLargeError as soon as it is announced or becomes too long."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        """`limit` is in bytes."""
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, with a body that is counted while it comes in."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        announced = int(headers.get("content-length", 0))  # the server has refused what is no number
        came = 0

        async def limited() -> Message:
            nonlocal came
            if announced > self._limit:
                raise TooLargeError(self._limit)
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._limit:
                raise TooLargeError(self._limit)
            return message

        await self._app(scope, limited, send)
