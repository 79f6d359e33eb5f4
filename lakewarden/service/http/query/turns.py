"""Requests about all tables take turns, so that a flood of them leaves time for hooks and probes.

The answer about ten thousand tables is some hundred milliseconds of Python. Several of them at once would be no faster,
and each thread that computes delays every other thread of the process. Those that ask the store as well have turns of
their own: if the store is away, the others do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from lakewarden.planners.model.errors import TemporaryError

FROM_MEMORY = frozenset(
    {
        "/v1/adoptions",
        "/v1/config",
        "/v1/discovery",
        "/v1/fleet",
        "/v1/registrations",
        "/v1/registrations/{id}",
        "/v1/tables",
    }
)
FROM_THE_STORE = frozenset({"/", "/v1/approvals", "/v1/fleet/debt", "/v1/fleet/status"})

_WAITING = 32
_AGAIN = timedelta(seconds=1)

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def in_turns(kind: type[APIRoute]) -> type[APIRoute]:
    """Return the kind of route that does what `kind` does, one request about all tables after the other.

    Beyond 32 requests that wait, the answer is 503.
    """
    turns = [(paths, _Turns()) for paths in (FROM_MEMORY, FROM_THE_STORE)]

    class TurnRoute(kind):  # type: ignore[misc, valid-type]
        def get_route_handler(self) -> _Handler:
            answer: _Handler = super().get_route_handler()
            asks = "GET" in self.methods  # an act may wait for the control thread
            return next((turn.of(answer) for paths, turn in turns if asks and self.path in paths), answer)

    return TurnRoute


class _Turns:
    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    def of(self, answer: _Handler) -> _Handler:
        async def answering(request: Request) -> Response:
            if self._waiting >= _WAITING:
                raise TemporaryError("too many requests about all tables wait: ask again in a while", delay=_AGAIN)
            self._waiting += 1
            try:
                await self._turn.acquire()
            finally:
                self._waiting -= 1
            try:
                return await answer(request)
            finally:
                self._turn.release()

        return answering
