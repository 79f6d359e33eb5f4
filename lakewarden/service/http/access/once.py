"""`Idempotency-Key`: a request that acts is carried out once, however often it is sent with the same key.

The row of a request is in the store before the request is carried out, and its answer before the client gets it. If the
daemon ends in between, it is not known whether the request was carried out. It is then refused for ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of
from lakewarden.service.http.errors import ApiError
from lakewarden.service.model.answers import AnswerRow, TooManyAnswersError

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
"""The header of an answer that was given before."""

LONGEST_KEY = 255

_KEY = re.compile(r"[!-~]+")

_ACTING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CLAIM = timedelta(minutes=6)  # longer than the longest barrier, and than a request that is passed on
_AGAIN_SECONDS = "1"
_FIND_OUT = "read GET /v1/audit and GET /v1/runs to see whether it was; if not, send it with another key"


def acts(path: str, method: str, *, hooks: str) -> bool:
    """Whether an operation of the API acts, so that it takes a key. A hook is a hint, and does not act."""
    return method.upper() in _ACTING and path.startswith("/v1/") and not path.startswith(hooks)


def once(plane: ControlPlane, clock: Clock, *, hooks: str) -> type[APIRoute]:
    """Return the kind of route that carries out a request once for each key. A request without a key is not noted."""
    under_way: set[asyncio.Task[Response]] = set()

    class OnceRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()
            if not all(acts(self.path, method, hooks=hooks) for method in self.methods or ()):
                return answer

            async def answering(request: Request) -> Response:
                sent = request.headers.getlist(HEADER)
                if not sent:
                    return await answer(request)
                repeats = _Repeats(plane, clock)
                row = await repeats.row_of(request, _key_in(sent))
                there = await repeats.claim(row)
                if there is not None:
                    return repeats.again(there, row)
                # If the client goes away, the answer is kept all the same.
                task = asyncio.create_task(repeats.answered(row, answer, request))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                return await asyncio.shield(task)

            return answering

    return OnceRoute


@dataclass(frozen=True, slots=True)
class _Repeats:
    plane: ControlPlane
    clock: Clock

    async def row_of(self, request: Request, key: str) -> AnswerRow:
        now, caller = self.clock.now(), caller_of(request)
        address = b"?".join((request.scope["raw_path"], request.scope["query_string"]))
        return AnswerRow(
            caller=_digest((caller.key or caller.name).encode("utf-8", errors="replace")),
            route=_digest(request.method.encode() + b" " + address),
            key=key,
            digest=_digest(await request.body()),
            replica=next((one.id for one in self.plane.replicas() if one.here), ""),
            created_at=now,
            claimed_until=now + _CLAIM,
        )

    async def claim(self, row: AnswerRow) -> AnswerRow | None:
        try:
            return await asyncio.to_thread(self.plane.answers().claim_answer, row)
        except TooManyAnswersError as many:
            headers = {"Retry-After": "3600"}
            raise ApiError(429, "too_many", f"{HEADER}: {many}", "send fewer keys", headers=headers) from many

    def again(self, there: AnswerRow, row: AnswerRow) -> Response:
        """Return the answer to a request with a known key. Raises ApiError if there is none to return."""
        if there.digest != row.digest:
            said = f"{HEADER}: this key was sent with another body"
            raise ApiError(422, "conflict", said, "send a new key with each new request")
        if there.status is not None:
            media_type = "application/json" if there.body else None
            return Response(there.body, there.status, headers={REPLAYED: "true"}, media_type=media_type)
        alive = {one.id for one in self.plane.replicas() if one.alive}
        if there.replica in alive and row.created_at < there.claimed_until:
            said = f"{HEADER}: the request with this key is being carried out"
            raise ApiError(409, "conflict", said, "ask again soon", headers={"Retry-After": _AGAIN_SECONDS})
        said = f"{HEADER}: it is not known whether the request with this key was carried out"
        raise ApiError(409, "outcome_unknown", said, _FIND_OUT)

    async def answered(
        self, row: AnswerRow, answer: Callable[[Request], Coroutine[Any, Any, Response]], request: Request
    ) -> Response:
        """Carry out a request, and keep its answer. An error after which nothing was done drops the row."""
        try:
            response = await answer(request)
        except (TemporaryError, PermanentError, RequestValidationError, HTTPException):
            await self._drop(row)
            raise
        except ApiError as refused:
            await (self._drop(row) if refused.status < HTTPStatus.INTERNAL_SERVER_ERROR else self._give_up(row))
            raise
        except BaseException:
            await self._give_up(row)
            raise
        body = bytes(response.body).decode() or None
        with suppress(TemporaryError):  # it is done, and a client that asks again hears that it is not known
            await asyncio.to_thread(
                self.plane.answers().keep_answer, replace(row, status=response.status_code, body=body)
            )
        return response

    async def _drop(self, row: AnswerRow) -> None:
        with suppress(TemporaryError):
            await asyncio.to_thread(self.plane.answers().drop_answer, row)

    async def _give_up(self, row: AnswerRow) -> None:
        with suppress(TemporaryError):
            ended = replace(row, claimed_until=self.clock.now())
            await asyncio.to_thread(self.plane.answers().keep_answer, ended)


def _key_in(sent: list[str]) -> str:
    """Return the key of a header. It may stand in quotation marks, as a string of RFC 8941 does."""
    whole = sent[0].strip()
    key = whole[1:-1] if len(whole) > 1 and whole[0] == whole[-1] == '"' else whole
    if len(sent) > 1 or len(whole) > LONGEST_KEY or _KEY.fullmatch(key) is None:
        said = f"{HEADER}: a key has 1 to {LONGEST_KEY} characters of ASCII without spaces, and there is one"
        raise ApiError(422, "invalid", said, "send a new UUID")
    return key


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


PARAMETER: Mapping[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A key of the client for this request. A request that is sent again with it acts once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
}
"""The header, for OpenAPI."""
