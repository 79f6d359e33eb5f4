"""Which errors become which problems, on both ports. Unexpected errors are logged a few times a minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.printable import printable_values
from lakewarden.service.events import Sampler
from lakewarden.service.http.query.pages import in_plain_words
from lakewarden.service.model.problems import MEDIA_TYPE, ProblemCode, Refusal, problem


class Answer(JSONResponse):
    """An answer with printable texts only. Names, paths and reasons come from tables and senders."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return super().render(printable_values(content))

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Keep the answer out of caches: it depends on the caller."""
        super().init_headers({"Cache-Control": "no-store", **(headers or {})})


class ProblemBody(BaseModel):
    """Any error, as problem details (RFC 9457). A member without a value is left out.

    `type` and `code` are for programs, and do not change. `detail` is for people. `remedy` says what to do, if that is
    known. `instance` is the path of the request. `key` is the id of the API key that was refused.
    """

    type: str = Field(json_schema_extra={"format": "uri"})
    title: str
    status: int
    detail: str
    code: str
    instance: str | None = None
    remedy: str | None = None
    key: str | None = None


PROBLEM = {"$ref": "#/components/schemas/ProblemBody"}
"""The schema of an error in OpenAPI."""


class ProblemAnswer(Answer):
    """An error as the answer."""

    media_type = MEDIA_TYPE


def problem_answer(
    scope: Scope,
    *,
    status: int,
    code: ProblemCode,
    detail: str,
    remedy: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProblemAnswer:
    """Return the answer of an error to the request of a scope."""
    raw: bytes = scope.get("raw_path") or b""
    instance = raw.decode("ascii", "replace").partition("?")[0] or None
    body = problem(status=status, code=code, detail=detail, remedy=remedy, instance=instance, key=key)
    return ProblemAnswer(body, status, headers=dict(headers or {}))


def refusal_answer(scope: Scope, refusal: Refusal, *, headers: Mapping[str, str] | None = None) -> ProblemAnswer:
    """Return the answer of a refusal."""
    detail, remedy = refusal.message, refusal.remedy
    return problem_answer(
        scope, status=refusal.status, code=refusal.code, detail=detail, remedy=remedy, headers=headers
    )


log = structlog.get_logger(__name__)

_CODES: Mapping[int, ProblemCode] = {
    400: "malformed",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}
_SAID = {
    404: "the daemon has no route with this path",
    405: "the route does not have this method: the header Allow has those that it has",
}
_SHOWN = 200
_NOT_JSON = "send the header Content-Type: application/json"

DEFAULT: Mapping[int | str, dict[str, Any]] = {"default": {"description": "Any error, in the one shape of all errors."}}
"""The errors of every route. It also stands for an answer that no route lists, such as the refusal of a port."""

_MEANINGS = {
    400: "The body is not what such a sender sends.",
    404: "The table, its policy for the service, or the run does not exist.",
    409: "It cannot be done now; `detail` says why, and `remedy` what to do.",
    412: "It has changed since it got the tag of `If-Match`. Nothing was done.",
    413: "The body is too large.",
    422: "A parameter or the body is invalid; `detail` names the field.",
    503: "The owner of the table, the store or the control thread did not answer in time. Try again later.",
}


def errors(*statuses: int, meaning: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route declares, for its `responses`."""
    return {
        status: {"description": meaning or _MEANINGS[status], "content": {MEDIA_TYPE: {"schema": PROBLEM}}}
        for status in statuses
    }


class ApiError(Exception):
    """An error as the answer, with its members. `key` is the id of the API key that was refused."""

    def __init__(
        self,
        status: int,
        code: ProblemCode,
        detail: str,
        remedy: str | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.key = key
        self.headers = headers


ShowProblem = Callable[[Scope, ProblemAnswer], Response]
"""Returns an error in the form that the sender of a request reads."""


def as_it_is(_scope: Scope, answer: ProblemAnswer) -> Response:
    """Return the answer of an error, for programs."""
    return answer


def add_error_handlers(app: FastAPI, show: ShowProblem = as_it_is) -> None:
    """Answer every error as problem details, which `show` may turn into another form."""

    def answer(
        request: Request,
        status: int,
        code: ProblemCode,
        detail: str,
        remedy: str | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        problem = problem_answer(
            request.scope, status=status, code=code, detail=detail, remedy=remedy, key=key, headers=headers
        )
        return show(request.scope, problem)

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        detail, remedy = error.detail, error.remedy
        return answer(request, error.status, error.code, detail, remedy, key=error.key, headers=error.headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:  # Starlette names those of one route of the path
            headers["Allow"] = ", ".join(_methods(app, request.scope))
        if error.status_code == HTTPStatus.BAD_REQUEST:  # FastAPI could not decode the body
            return answer(request, 422, "invalid", f"body: {error.detail}")
        code, detail = _CODES.get(error.status_code, "refused"), str(error.detail)
        if detail == HTTPStatus(error.status_code).phrase:  # Starlette's own words
            detail = _SAID.get(error.status_code, detail)
        return answer(request, error.status_code, code, detail, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        detail = error.errors()[0]
        remedy = _NOT_JSON if isinstance(error.body, bytes) else None  # FastAPI reads only what is declared as JSON
        where = detail["loc"][:1] if detail["type"] == "json_invalid" else detail["loc"]  # else an offset follows
        place = ".".join(str(part) for part in where)
        return answer(request, 422, "invalid", f"{place}: {in_plain_words(detail)}", remedy)

    @app.exception_handler(TemporaryError)
    async def later(request: Request, error: TemporaryError) -> Response:
        after = str(max(1, round(error.delay.total_seconds())))
        return answer(request, 503, "unavailable", str(error), headers={"Retry-After": after})

    @app.exception_handler(UnknownError)
    async def unknown(request: Request, error: UnknownError) -> Response:
        return answer(request, 503, "outcome_unknown", str(error))

    @app.exception_handler(PermanentError)
    async def never(request: Request, error: PermanentError) -> Response:
        return answer(request, 409, "blocked", str(error))

    @app.exception_handler(Exception)
    async def bug(request: Request, _error: Exception) -> Response:
        status = HTTPStatus.INTERNAL_SERVER_ERROR  # Starlette raises it again, to `Outermost`
        return answer(request, status, "internal", "the daemon had an unexpected error: its log has the cause")


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """Return the methods of all routes of the path of a request."""
    fitting = [route for route in app.routes if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE]
    methods = {method for route in fitting for method in route.methods or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


class Outermost:
    """The edge of an application: it raises nothing, and logs the traceback of a bug a few times a minute."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sampler = Sampler()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as bug:  # noqa: BLE001 - the edge of every request
            self._tell(scope, bug)

    def _tell(self, scope: Scope, bug: Exception) -> None:
        withheld = self._sampler.admit(type(bug).__name__)
        if withheld is not None:
            path = ascii(scope.get("path", ""))[:_SHOWN]
            log.error("unforeseen_error", path=path, not_told_before=withheld, exc_info=bug)
