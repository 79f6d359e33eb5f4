"""Problem details (RFC 9457): the one shape of every error, on every port. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

MEDIA_TYPE = "application/problem+json"

ProblemCode = Literal[
    "blocked",
    "changed",
    "conflict",
    "forbidden",
    "internal",
    "invalid",
    "malformed",
    "method_not_allowed",
    "not_found",
    "not_supported",
    "outcome_unknown",
    "refused",
    "timeout",
    "too_large",
    "too_many",
    "unauthenticated",
    "unavailable",
]
"""The codes of all errors. A code is for programs and does not change."""

TITLES: Mapping[ProblemCode, str] = {
    "blocked": "It cannot be done now",
    "changed": "It has changed since it was read",
    "conflict": "The key of the request is in use",
    "forbidden": "The caller may not do this",
    "internal": "An unexpected error",
    "invalid": "A parameter or the body is invalid",
    "malformed": "The request is not one that the daemon understands",
    "method_not_allowed": "The route does not have this method",
    "not_found": "There is no such thing",
    "not_supported": "The format or the service cannot do this",
    "outcome_unknown": "It is not known whether the request was carried out",
    "refused": "The request was refused",
    "timeout": "The client was too slow",
    "too_large": "The request is too large",
    "too_many": "There are too many requests",
    "unauthenticated": "The caller is unknown",
    "unavailable": "It cannot be done at the moment",
}
"""The title of each problem."""


def problem(
    *,
    status: int,
    code: ProblemCode,
    detail: str,
    remedy: str | None = None,
    instance: str | None = None,
    key: str | None = None,
) -> dict[str, object]:
    """Return the body of an error. A member without a value is left out, as RFC 9457 has it.

    `instance` is the path of the request. `key` is the id of the API key that was refused, and never the key.
    """
    said = {
        "type": f"urn:lakewarden:problem:{code}",
        "title": TITLES[code],
        "status": HTTPStatus(status).value,
        "detail": detail,
        "instance": instance,
        "code": code,
        "remedy": remedy,
        "key": key,
    }
    return {name: value for name, value in said.items() if value is not None}
