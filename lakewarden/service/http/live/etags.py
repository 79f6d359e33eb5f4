"""Tags of answers (`ETag`). A client that asks again with the tag gets 304 without a body if nothing has changed."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.status import HTTP_200_OK, HTTP_304_NOT_MODIFIED

from lakewarden.planners.model.clock import Clock
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of
from lakewarden.service.http.live.progress import ProgressBodies
from lakewarden.service.http.query.steps import Handler
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.access import Caller
from lakewarden.service.model.run import Run

# Runs as JSON, with what is known of them only in the daemon that carries them out.


class LiveRuns:
    """Makes the bodies of runs. Any thread may call. Raises TemporaryError if the store does not answer."""

    def __init__(self, plane: ControlPlane, clock: Clock) -> None:
        self._plane = plane
        self._clock = clock
        self._progress = ProgressBodies(plane)

    def body(self, run: Run) -> RunBody:
        """Return the body of one run."""
        return self.bodies([run])[0]

    def bodies(self, runs: Sequence[Run]) -> list[RunBody]:
        """Return the bodies of runs, in their order."""
        waiting, doing, now = self._plane.waiting(), self._plane.progress(), self._clock.now()
        return [
            run_body(
                run,
                now=now,
                waits_for=waiting.get(run.id),
                progress=self._progress.body(run, doing.get(run.id), now=now),
            )
            for run in runs
        ]


_AGES = re.compile(
    rb'\A\{"since":"[^"\\]*","(?:at|until)":"[^"\\]*"|'
    rb'"(?:[a-z_]+_ago|run_seconds|explained_at|[a-z_]*age_seconds|oldest_pending_seconds)":'
    rb'(?:null|"[^"\\]*"|[-+.0-9eE]+)'
)
"""Members that change with the time alone. In a text of JSON each quotation mark is escaped, so no text looks so.

A body that begins with the span of time that it is about ends it now. What is in the span counts.
"""

_LARGE_BYTES = 64 * 2**10
"""The tag of a larger body is made in a thread, because the loop of the server answers hooks meanwhile."""

_TAG = re.compile(r'\*|"[^"]*"')
_PRIVATE = {"Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, X-API-Key, Cookie"}

NOT_MODIFIED: Mapping[str, Any] = {
    "description": "Nothing has changed since the answer with that `ETag`. Ages, such as `run_seconds`, do not count.",
    "headers": {"ETag": {"description": "The tag of the answer.", "schema": {"type": "string"}}},
}
"""The answer to a client that has the newest answer already, for OpenAPI."""

IF_NONE_MATCH: Mapping[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of an earlier answer.",
    "schema": {"type": "string"},
}
"""The header of such a client, for OpenAPI."""


IF_MATCH: Mapping[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` that the same caller was given for this thing. If it has another one now, the answer is "
    "412, and nothing is changed.",
    "schema": {"type": "string"},
}
"""The header of a client that changes only what it has seen, for OpenAPI."""


def is_tagged(path: str, method: str) -> bool:
    """Whether the answers of an operation have tags."""
    return method.upper() == "GET" and path.startswith("/v1/")


def tagged(route: APIRoute, answer: Handler) -> Handler:
    """Give the answers of a route tags if they are read. This is a step of a request."""
    if not all(is_tagged(route.path, method) for method in route.methods or ()):
        return answer

    async def tagging(request: Request) -> Response:
        response = await answer(request)
        if response.status_code != HTTP_200_OK or not isinstance(response, JSONResponse):
            return response  # such as an answer of the owner of the table, which has its tag already
        large = len(response.body) > _LARGE_BYTES
        tag = await asyncio.to_thread(_tag, request, response) if large else _tag(request, response)
        response.headers.update({"ETag": tag, **_PRIVATE})
        if not has(request, tag):
            return response
        return Response(status_code=HTTP_304_NOT_MODIFIED, headers={"ETag": tag, **_PRIVATE})

    return tagging


def _tag(request: Request, response: Response) -> str:
    return tag_of(bytes(response.body), caller_of(request), link=response.headers.get("link"))


def tag_of(body: bytes, caller: Caller, *, link: str | None = None) -> str:
    """Return a weak tag of the content, and of what its caller may see."""
    seen_by = repr((caller.role.value, sorted(caller.tables), link)).encode()
    content = _AGES.sub(b"", body)
    return f'W/"{hashlib.blake2b(content, key=hashlib.sha256(seen_by).digest(), digest_size=12).hexdigest()}"'


def has(request: Request, tag: str) -> bool:
    """Whether the client has the answer. Weak tags are compared without their `W/` (RFC 9110)."""
    return _names(request.headers.getlist("if-none-match"), tag)


def expects(request: Request, tag: str) -> bool:
    """Whether the client wants to change what has this tag. A client without `If-Match` changes whatever is there.

    The tag is compared without its `W/`, because the tag of what can be changed leaves nothing out.
    """
    sent = request.headers.getlist("if-match")
    return not sent or _names(sent, tag)


def _names(sent: Sequence[str], tag: str) -> bool:
    return any(name in ("*", tag.removeprefix("W/")) for name in _TAG.findall(",".join(sent)))
