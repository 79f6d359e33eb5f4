"""Problems of the pages: a person with a browser reads a page, a program reads problem details."""

from __future__ import annotations

import json

from starlette.responses import Response
from starlette.types import Scope

from lakewarden.service.http.access.callers import reads_pages
from lakewarden.service.http.pages.answer import HEADERS
from lakewarden.service.http.problems import ProblemAnswer
from lakewarden.service.page.rendering import Pages

_OF_BODIES = frozenset({"content-length", "content-type"})


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
        body = self._pages.rendered("problem", problem=json.loads(bytes(answer.body)))
        headers = {name: value for name, value in answer.headers.items() if name not in _OF_BODIES}
        return Response(
            body.encode("utf-8", "replace"),
            answer.status_code,
            headers={**headers, **HEADERS, "Cache-Control": "no-store"},
            media_type="text/html",
        )

    def _is_api(self, path: str) -> bool:
        return any(path == api or path.startswith(f"{api}/") for api in self._apis)
