"""Routes that declare the role of their callers. A request is passed on to a route only if its caller has the role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from lakewarden.service.http.access.callers import CALLER, client_of
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.query.steps import Handler, Step
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.problems import NOT_ALLOWED, OnRefusal

_ROLE = "x-lakewarden-role"
_WHOLE = "x-lakewarden-whole"
_NONE = "none"


def needs(role: Role, *, whole: bool = False) -> dict[str, Any]:
    """Return the declaration of a role, for the `openapi_extra` of a route.

    If the route has a `{table}` in its path, the caller needs the role for that table. `whole`: the route is about the
    daemon as a whole, and the caller needs the role for every table.
    """
    return {_ROLE: role.value, _WHOLE: whole}


OPEN: dict[str, Any] = {_ROLE: _NONE, _WHOLE: False}
"""The declaration of a route that needs no key."""


def is_open(declared: Mapping[str, Any]) -> bool:
    """Whether a declaration, such as an operation of OpenAPI, says that no key is needed."""
    return declared.get(_ROLE) == _NONE


def role_of(route: APIRoute) -> tuple[Role | None, bool]:
    """Return the role that a route declares (None: it needs no key), and whether it is about the daemon as a whole.

    Raises TypeError if it declares none, so an application with such a route cannot be made.
    """
    declared = route.openapi_extra or {}
    if _ROLE not in declared:
        raise TypeError(f"the route {route.path} declares no role: give it openapi_extra=needs(...)")
    return None if declared[_ROLE] == _NONE else Role(declared[_ROLE]), bool(declared[_WHOLE])


def caller_of(request: Request) -> Caller:
    """Return the caller of a request."""
    caller: Caller = request.scope[CALLER]
    return caller


def guarding(on_refusal: OnRefusal) -> Step:
    """Return the step that passes a request on only if its caller has the role of the route."""

    def step(route: APIRoute, answer: Handler) -> Handler:
        role, whole = role_of(route)
        if role is None:
            return answer

        async def guarded(request: Request) -> Response:
            caller = caller_of(request)
            refused = _refused(caller, role, request.path_params, whole=whole)
            if refused is not None:
                on_refusal(NOT_ALLOWED.kind, client_of(request.scope))
                raise ApiError(NOT_ALLOWED.status, NOT_ALLOWED.code, *refused, key=caller.key)
            return await answer(request)

        return guarded

    return step


def _refused(caller: Caller, role: Role, path: Mapping[str, str], *, whole: bool) -> tuple[str, str | None] | None:
    """Return why a caller may not use a route, with the remedy. None if it may."""
    if not caller.may(role):
        reason = f"this needs the role {role}, and the key of {caller.name} has the role {caller.role}"
        return reason, NOT_ALLOWED.remedy
    if whole and not caller.reaches_everything:
        reason = f"this concerns every table, and the key of {caller.name} is for: {', '.join(caller.tables)}"
        return reason, "use a key for all tables: `lakewarden keys list` shows the tables of each key"
    if "table" in path and not caller.reaches(path["table"]):
        reason = f"the key of {caller.name} is not for table {path['table']!r}: it is for {', '.join(caller.tables)}"
        return reason, "use a key for this table: `lakewarden keys list` shows the tables of each key"
    return None
