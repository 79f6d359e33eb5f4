"""The one shape of every error, on both ports; and what nobody foresaw, which is told of a few times a minute."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.events.sampling import Sampler
from lakewarden.service.http.answers import Answer
from lakewarden.service.http.guard.protocol import VISITOR
from lakewarden.service.http.schemas import ErrorAnswer, ErrorBody

log = structlog.get_logger(__name__)

_CODES = {400: "malformed", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
_SHOWN = 200


class ApiError(Exception):
    """An answer that is an error, with all that its body says."""

    def __init__(self, status: int, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorAnswer(error=ErrorBody(code=code, message=message, remedy=remedy))


def add_error_handlers(app: FastAPI) -> None:
    """Have every error answered as `{"error": {code, message, remedy}}`."""

    def answer(status: int, code: str, message: str) -> Answer:
        return Answer(ErrorAnswer(error=ErrorBody(code=code, message=message)).model_dump(), status)

    @app.exception_handler(ApiError)
    async def api_error(_request: Request, error: ApiError) -> Answer:
        return Answer(error.body.model_dump(), error.status)

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: HTTPException) -> Answer:
        response = answer(error.status_code, _CODES.get(error.status_code, "refused"), str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Answer:
        found = error.errors()[0]
        return answer(422, "invalid", f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}")

    @app.exception_handler(TemporaryError)
    async def later(_request: Request, error: TemporaryError) -> Answer:
        response = answer(503, "unavailable", str(error))
        response.headers["Retry-After"] = str(max(1, round(error.delay.total_seconds())))
        return response

    @app.exception_handler(PermanentError)
    async def never(_request: Request, error: PermanentError) -> Answer:
        return answer(409, "blocked", str(error))

    @app.exception_handler(Exception)
    async def bug(_request: Request, _error: Exception) -> Answer:
        status = HTTPStatus.INTERNAL_SERVER_ERROR  # Starlette raises it further, to `Outermost`
        return answer(status, "internal", "an unexpected error: the daemon's log has it")


class Outermost:
    """The edge of an application: nothing is raised beyond it, and a bug's traceback is told a few times a minute."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sampler = Sampler()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, and let the connection know who answers it."""
        visitor = scope.get("state", {}).get(VISITOR)
        if visitor is not None:
            visitor.task = asyncio.current_task()
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
            log.error("api_trouble", path=path, not_told_before=withheld, exc_info=bug)
