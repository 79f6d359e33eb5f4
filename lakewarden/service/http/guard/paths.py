"""Middleware for paths that name nothing: no table, run or route has a control character or a slash in its name."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.service.http.errors import ShowProblem, as_it_is
from lakewarden.service.http.problems import problem_answer


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
        said = _wrong(scope) if scope["type"] == "http" and not scope["path"].startswith(self._hooks) else None
        if said is None:
            await self._app(scope, receive, send)
            return
        problem = problem_answer(scope, status=404, code="not_found", detail=said)
        await self._show(scope, problem)(scope, receive, send)


def _wrong(scope: Scope) -> str | None:
    """Return what is wrong with a path, or None."""
    if not scope["path"].isprintable():
        return "the path has a character that cannot be printed"
    if b"%2f" in scope.get("raw_path", b"").lower():
        return "the path has an encoded slash, and no name of a table or run has a slash"
    return None
