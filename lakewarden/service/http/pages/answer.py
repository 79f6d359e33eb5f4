"""What every answer of the page has in common: its headers, and the values that every template needs."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response
from starlette.types import Scope

from lakewarden.planners.model.clock import Clock
from lakewarden.service.http.access.callers import CALLER, reads_pages
from lakewarden.service.http.access.roles import caller_of
from lakewarden.service.http.errors import ProblemAnswer
from lakewarden.service.http.request_limits import names_tag
from lakewarden.service.model.access import Role
from lakewarden.service.page.rendering import Pages, without_ages

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms send `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""A page loads nothing from another host, runs only our scripts, and is shown in no frame."""


class Rendering:
    """Makes answers from the templates."""

    def __init__(self, clock: Clock) -> None:
        self._pages = Pages()
        self._clock = clock

    def page(self, request: Request, name: str, **values: Any) -> HTMLResponse:
        """Return the answer with the page `name`. Its template also gets `caller`, `now` and its own `address`.

        A browser that has the page already gets 304. Ages do not count as a change: the browser counts them on.
        """
        caller = caller_of(request)
        body = self._pages.rendered(
            name,
            caller=caller,
            sees_audit=caller.may(Role.ADMIN) and caller.reaches_everything,
            address=address(request),
            **{"now": self._clock.now(), **values},
        )
        content = body.encode("utf-8", "replace")
        tag = f'W/"{hashlib.blake2b(without_ages(content), digest_size=12).hexdigest()}"'
        headers = {**HEADERS, "Cache-Control": "no-store", "ETag": tag}
        if names_tag(request.headers.getlist("if-none-match"), tag):
            return HTMLResponse(status_code=304, headers=headers)
        return HTMLResponse(content, headers=headers)

    def bare(self, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the answer with a page that is for no caller."""
        body = self._pages.rendered(name, **values)
        return HTMLResponse(body, status, headers={**HEADERS, "Cache-Control": "no-store"})


def address(request: Request, **changes: str | int | None) -> str:
    """Return the path and the query of a request, with other values of the query. None removes one."""
    query = {**request.query_params, **changes}
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    path = request.scope.get("raw_path", b"/").decode("ascii", "replace")
    return f"{path}?{urlencode(kept)}" if kept else path


# Problems of the pages: a person with a browser reads a page, a program reads problem details.

_OF_BODIES = frozenset({"cache-control", "content-length", "content-type"})


class ProblemPages:
    """Shows problems as pages. Paths below `apis`, and these paths themselves, are for programs."""

    def __init__(self, *apis: str) -> None:
        self._pages = Pages()
        self._apis = tuple(path.rstrip("/") for path in apis)

    def __call__(self, scope: Scope, answer: ProblemAnswer) -> Response:
        """Return the answer to the request of a scope: a page with the same status and headers if a browser asked for a
        page, else `answer`.
        """
        if not reads_pages(scope) or self._is_api(scope["path"]):
            return answer
        body = self._pages.rendered("problem", problem=json.loads(bytes(answer.body)), caller=scope.get(CALLER))
        headers = {name: value for name, value in answer.headers.items() if name not in _OF_BODIES}
        return Response(
            body.encode("utf-8", "replace"),
            answer.status_code,
            headers={**headers, **HEADERS, "Cache-Control": "no-store"},
            media_type="text/html",
        )

    def _is_api(self, path: str) -> bool:
        return any(path == api or path.startswith(f"{api}/") for api in self._apis)
