"""Routes that refuse a parameter of the query that they do not have. A misspelt filter would return everything.

They refuse a parameter, and a key of the body, that is there twice. A proxy in front may read the other one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from lakewarden.planners.settings import shown
from lakewarden.service.http.errors import ApiError

_ONCE = "send it once"


def strict(kind: type[APIRoute], *, lenient: str) -> type[APIRoute]:
    """Return the kind of route that refuses unknown parameters, and then does what `kind` does.

    Routes below the path `lenient` take any: their senders cannot be changed.
    """

    class StrictRoute(kind):  # type: ignore[misc, valid-type]
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer: Callable[[Request], Coroutine[Any, Any, Response]] = super().get_route_handler()
            if self.path.startswith(lenient):
                return answer
            known = dict(sorted(_parameters(self.dependant).items()))

            async def refusing(request: Request) -> Response:
                unknown = next((key for key in request.query_params if key not in known), None)
                if unknown is not None:
                    remedy = f"the route takes {', '.join(known)}" if known else "the route takes no parameter"
                    raise ApiError(422, "invalid", f"query: there is no parameter {shown(unknown)}", remedy)
                sent = Counter(key for key, _ in request.query_params.multi_items())
                twice = next((key for key, times in sent.items() if times > 1 and not known[key]), None)
                if twice is not None:
                    raise ApiError(422, "invalid", f"query: the parameter {twice} is there twice", _ONCE)
                if self.body_field is not None:
                    _refuse_keys_twice(await request.body())
                return await answer(request)

            return refusing

    return StrictRoute


def _parameters(dependant: Dependant) -> dict[str, bool]:
    """Return all parameters of the query that a route takes, and whether each may be there several times."""
    found: dict[str, bool] = {}
    for one in dependant.dependencies:
        found |= _parameters(one)
    return found | {param.alias: "list[" in str(param.field_info.annotation) for param in dependant.query_params}


def _refuse_keys_twice(body: bytes) -> None:
    """Raise ApiError (422) if an object of a JSON text has a key twice. Another text is for the route to judge."""
    with suppress(ValueError, RecursionError):
        json.loads(body, object_pairs_hook=_with_each_key_once)


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ApiError(422, "invalid", f"body: the key {shown(twice)} is there twice", _ONCE)
    return found
