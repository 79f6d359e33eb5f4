"""Middleware for what a request may be: its method, its path, and its body."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.service.http.access.callers import client_of
from lakewarden.service.http.connections import CONNECTION, HEAD_BYTES, Connection
from lakewarden.service.http.errors import ShowProblem, as_it_is, problem_answer, refusal_answer
from lakewarden.service.model.problems import LONG_HEAD, LONG_URL, TWO_LENGTHS, OnRefusal, Refusal

BODY_BYTES = 8 * 2**20
"""The limit for the body of a hook, in bytes. A commit callback has some hundred bytes for each file that was written.
Only its beginning is kept.
"""

SMALL_BYTES = 64 * 2**10
"""The limit for requests of operators and writers, in bytes."""

URL_BYTES = 8 * 2**10
_DIGITS = 18
_TAG = re.compile(r'\*|"[^"]*"')


class PlainRequests:
    """Middleware of every port, before all others: it refuses requests that are long, or that have two lengths.

    A proxy in front may read a body with two lengths differently.

    A HEAD is answered as a GET (RFC 9110, section 9.3.2). The server sends no body, because it knows the method that
    came.
    """

    def __init__(self, app: ASGIApp, *, on_refusal: OnRefusal) -> None:
        self._app = app
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal and close the connection, or pass the request on."""
        refusal = _refusal(scope)
        if refusal is not None:
            self._on_refusal(refusal.kind, client_of(scope))
            await refusal_answer(scope, refusal, headers={"Connection": "close"})(scope, receive, send)
            return
        await self._app({**scope, "method": "GET"} if scope["method"] == "HEAD" else scope, receive, send)


def _refusal(scope: Scope) -> Refusal | None:
    if {b"transfer-encoding", b"content-length"} <= {name for name, _ in scope["headers"]}:
        return TWO_LENGTHS
    if len(scope["raw_path"]) + len(scope["query_string"]) > URL_BYTES:
        return LONG_URL
    return LONG_HEAD if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES else None


class PlainPaths:
    """Answers 404 to a path with a control character. PostgreSQL would refuse the NUL in the id of a run.

    An encoded slash (`%2F`) would separate two parts here, and not for a proxy in front that judges by paths. So it is
    answered with 404, too.

    Hooks, below the path `hooks`, may have them: Iceberg's REST clients write `%1F` between the levels of a namespace.
    """

    def __init__(self, app: ASGIApp, *, hooks: str, show: ShowProblem = as_it_is) -> None:
        self._app = app
        self._hooks = hooks
        self._show = show

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404, or pass the request on."""
        reason = None if scope["path"].startswith(self._hooks) else _wrong(scope)
        if reason is None:
            await self._app(scope, receive, send)
            return
        problem = problem_answer(scope, status=404, code="not_found", detail=reason)
        await self._show(scope, problem)(scope, receive, send)


def _wrong(scope: Scope) -> str | None:
    """Return what is wrong with a path, or None."""
    if not scope["path"].isprintable():
        return "the path has a character that cannot be printed"
    if b"%2f" in scope.get("raw_path", b"").lower():
        return "the path has an encoded slash, and no name of a table or run has a slash"
    return None


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
        headers = Headers(scope=scope)
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
    connection: Connection | None = request.scope.get("state", {}).get(CONNECTION)
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
            if connection is not None:
                connection.kept_bytes += len(fits)
        if not message.get("more_body", False):
            return bytes(body), whole


def names_tag(sent: Sequence[str], tag: str) -> bool:
    """Whether headers such as `If-Match` name a tag, or `*`. Weak tags are compared without their `W/` (RFC 9110)."""
    return any(name in ("*", tag.removeprefix("W/")) for name in _TAG.findall(",".join(sent)))
