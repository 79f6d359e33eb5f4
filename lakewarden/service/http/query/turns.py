"""Requests about all tables take turns, so that a flood of them leaves time for hooks and probes.

The answer about ten thousand tables is some hundred milliseconds of Python. Several of them at once would be no faster,
and each thread that computes delays every other thread of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from lakewarden.planners.model.errors import TemporaryError

OF_ALL_TABLES = frozenset({"/", "/v1/tables", "/v1/fleet"})

_WAITING = 32
_AGAIN = timedelta(seconds=1)


def in_turns(kind: type[APIRoute]) -> type[APIRoute]:
    """Return the kind of route that does what `kind` does, one request about all tables after the other.

    Beyond 32 requests that wait, the answer is 503.
    """
    turn = asyncio.Semaphore(1)
    waiting = 0

    class TurnRoute(kind):  # type: ignore[misc, valid-type]
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer: Callable[[Request], Coroutine[Any, Any, Response]] = super().get_route_handler()
            if self.path not in OF_ALL_TABLES:
                return answer

            async def answering(request: Request) -> Response:
                nonlocal waiting
                if waiting >= _WAITING:
                    raise TemporaryError("too many requests about all tables wait: ask again in a while", delay=_AGAIN)
                waiting += 1
                try:
                    await turn.acquire()
                finally:
                    waiting -= 1
                try:
                    return await answer(request)
                finally:
                    turn.release()

            return answering

    return TurnRoute
