"""Routes that refuse a parameter of the query that they do not have. A misspelt filter would return everything."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from lakewarden.planners.settings import shown
from lakewarden.service.http.errors import ApiError


def strict(kind: type[APIRoute], *, lenient: str) -> type[APIRoute]:
    """Return the kind of route that refuses unknown parameters, and then does what `kind` does.

    Routes below the path `lenient` take any: their senders cannot be changed.
    """

    class StrictRoute(kind):  # type: ignore[misc, valid-type]
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer: Callable[[Request], Coroutine[Any, Any, Response]] = super().get_route_handler()
            if self.path.startswith(lenient):
                return answer
            known = sorted(_parameters(self.dependant))

            async def refusing(request: Request) -> Response:
                unknown = next((key for key in request.query_params if key not in known), None)
                if unknown is not None:
                    remedy = f"the route takes {', '.join(known)}" if known else "the route takes no parameter"
                    raise ApiError(422, "invalid", f"query: there is no parameter {shown(unknown)}", remedy)
                return await answer(request)

            return refusing

    return StrictRoute


def _parameters(dependant: Dependant) -> set[str]:
    """Return all parameters of the query that a route takes."""
    inner = (_parameters(one) for one in dependant.dependencies)
    return {param.alias for param in dependant.query_params}.union(*inner)
