"""The steps that a request passes before its route answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.settings import shown
from lakewarden.service.http.errors import ApiError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Step = Callable[[APIRoute, Handler], Handler]
"""Returns what answers the requests of a route, given what answers those that pass the step."""

FROM_MEMORY = frozenset(
    {
        "/v1/config",
        "/v1/discovery",
        "/v1/registrations",
        "/v1/registrations/{id}",
        "/v1/tables",
    }
)
FROM_THE_STORE = frozenset({"/", "/v1/approvals", "/v1/fleet/status"})

_WAITING = 32
_AGAIN = timedelta(seconds=1)


def stepped(*steps: Step) -> type[APIRoute]:
    """Return the kind of route with requests that pass these steps, in this order."""

    class SteppedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            answer = super().get_route_handler()
            for step in reversed(steps):
                answer = step(self, answer)
            return answer

    return SteppedRoute


def strict(*lenient: str) -> Step:
    """Return the step that refuses a parameter of the query that a route does not have. A misspelt filter would return
    everything.

    Routes below the paths `lenient` take any: their senders cannot be changed.
    """

    def step(route: APIRoute, answer: Handler) -> Handler:
        if route.path.startswith(lenient):
            return answer
        names = sorted(_parameters(route.dependant))

        async def refusing(request: Request) -> Response:
            unknown = next((key for key in request.query_params if key not in names), None)
            if unknown is not None:
                remedy = f"the route takes {', '.join(names)}" if names else "the route takes no parameter"
                raise ApiError(422, "invalid", f"query: there is no parameter {shown(unknown)}", remedy)
            return await answer(request)

        return refusing

    return step


def _parameters(dependant: Dependant) -> set[str]:
    """Return all parameters of the query that a route takes."""
    inner = (_parameters(dependency) for dependency in dependant.dependencies)
    return {param.alias for param in dependant.query_params}.union(*inner)


def in_turns() -> Step:
    """Return the step in which requests about all tables take turns, so that a flood leaves time for hooks and probes.

    The answer about ten thousand tables is some hundred milliseconds of Python. Several of them at once would be no
    faster, and each thread that computes delays every other thread of the process. Those that ask the store as well
    have turns of their own: if the store is away, the others do not wait for it. Beyond 32 requests that wait, the
    answer is 503.
    """
    turns = [(paths, _Turns()) for paths in (FROM_MEMORY, FROM_THE_STORE)]

    def step(route: APIRoute, answer: Handler) -> Handler:
        asks = "GET" in (route.methods or ())  # an act may wait for the control thread
        return next((turn.of(answer) for paths, turn in turns if asks and route.path in paths), answer)

    return step


class _Turns:
    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    def of(self, answer: Handler) -> Handler:
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
