"""The OpenAPI of an application: errors are problem details, and every operation says each of its answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from lakewarden.service.http.access.callers import KEY_HEADER
from lakewarden.service.http.access.roles import is_open
from lakewarden.service.http.errors import PROBLEM, ProblemBody
from lakewarden.service.model.problems import MEDIA_TYPE, REFUSALS

_IN_PATH = re.compile(r"\{(\w+)\}")
_UNUSED = ("HTTPValidationError", "ValidationError")
_BUG = HTTPStatus.INTERNAL_SERVER_ERROR
_KEYS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_SCHEMES = {
    "Bearer": {"type": "http", "scheme": "bearer", "description": "An API key, as `Authorization: Bearer KEY`."},
    "Key": {"type": "apiKey", "in": "header", "name": KEY_HEADER, "description": "An API key."},
}
_SECURITY: list[dict[str, list[str]]] = [{}, {"Bearer": []}, {"Key": []}]
"""Without `access.authentication` no key is needed."""


def operation_id(route: APIRoute) -> str:
    """Return the id of a route in OpenAPI: the name of its function."""
    return route.name


def describe(app: FastAPI) -> None:
    """Have an application describe itself so. The description is made once."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = made.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    for unused in _UNUSED:
        schemas.pop(unused, None)
    schemas["ProblemBody"] = ProblemBody.model_json_schema()
    components["responses"] = {_name(status): _shared(status) for status in _everywhere()}
    components["securitySchemes"] = _SCHEMES
    for path, methods in made["paths"].items():
        for operation in methods.values():
            below = path.strip("/").removeprefix("v1/")
            operation["tags"] = ["services" if "/services/" in path else below.partition("/")[0]]
            _with_parameters(operation, path)
    for operation in _operations(made):
        _with_problems(operation)
        if not is_open(operation):
            operation["security"] = _SECURITY
    return made


def _operations(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in made["paths"].values():
        yield from path.values()


def _everywhere() -> list[HTTPStatus]:
    """Return the statuses that every operation may answer, because a port or the application refuses the request."""
    return sorted({_BUG, *(refusal.status for refusal in REFUSALS)})


def _name(status: HTTPStatus) -> str:
    return f"Refused{status.value}"


def _shared(status: HTTPStatus) -> dict[str, Any]:
    description = "; ".join(refusal.message for refusal in REFUSALS if refusal.status is status)
    return {"description": description or "an unexpected error", "content": {MEDIA_TYPE: {"schema": PROBLEM}}}


def _with_parameters(operation: dict[str, Any], path: str) -> None:
    """Declare the parameters in a path that its function reads from the path itself."""
    declared = operation.setdefault("parameters", [])
    names = {parameter["name"] for parameter in declared}
    for name in _IN_PATH.findall(path):
        if name not in names:
            declared.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})


def _with_problems(operation: dict[str, Any]) -> None:
    """Add the errors that every operation has."""
    answers: dict[str, Any] = operation["responses"]
    answers.pop("default", None)
    for status in _everywhere():
        if status not in _KEYS or not is_open(operation):
            answers.setdefault(str(status.value), {"$ref": f"#/components/responses/{_name(status)}"})
