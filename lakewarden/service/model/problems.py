"""Problem details (RFC 9457): the one shape of every error, on every port. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal

MEDIA_TYPE = "application/problem+json"

ProblemCode = Literal[
    "blocked",
    "changed",
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
    "unauthenticated",
    "unavailable",
]
"""The codes of all errors. A code is for programs and does not change."""

TITLES: Mapping[ProblemCode, str] = {
    "blocked": "It cannot be done now",
    "changed": "It has changed since it was read",
    "forbidden": "Not permitted",
    "internal": "An unexpected error",
    "invalid": "A parameter or the body is invalid",
    "malformed": "The request is not one that the daemon understands",
    "method_not_allowed": "The route does not have this method",
    "not_found": "Not found",
    "not_supported": "The format or the service cannot do this",
    "outcome_unknown": "It is not known whether the request was carried out",
    "refused": "The request was refused",
    "timeout": "The client was too slow",
    "too_large": "The request is too large",
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
    members = {
        "type": f"urn:lakewarden:problem:{code}",
        "title": TITLES[code],
        "status": HTTPStatus(status).value,
        "detail": detail,
        "instance": instance,
        "code": code,
        "remedy": remedy,
        "key": key,
    }
    return {name: value for name, value in members.items() if value is not None}


# The refusals of a port: the requests that no route sees, and the connections that are ended.


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One reason to refuse a client. `kind` is its name in metrics and in the log."""

    kind: str
    status: HTTPStatus
    code: ProblemCode
    message: str
    remedy: str | None = None


TWO_LENGTHS = Refusal(
    kind="two_lengths",
    status=HTTPStatus.BAD_REQUEST,
    code="malformed",
    message="the request gives the length of its body twice",
    remedy="send either Content-Length or Transfer-Encoding",
)
LONG_HEAD = Refusal(
    kind="long_head",
    status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    code="too_large",
    message="the headers of a request have at most 16384 bytes",
)
LONG_URL = Refusal(
    kind="long_url",
    status=HTTPStatus.REQUEST_URI_TOO_LONG,
    code="too_large",
    message="the address of a request has at most 8192 bytes",
)
FOREIGN_ORIGIN = Refusal(
    kind="foreign_origin",
    status=HTTPStatus.FORBIDDEN,
    code="forbidden",
    message="the request came from a page of another site",
    remedy="use a client that is not a browser, or add the page's host to api.allowed_hosts",
)
UNKNOWN_HOST = Refusal(
    kind="unknown_host",
    status=HTTPStatus.MISDIRECTED_REQUEST,
    code="forbidden",
    message="the request's Host is not a name of this daemon",
    remedy="add the name to api.allowed_hosts",
)
NO_KEY = Refusal(
    kind="no_key",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the request has no API key",
    remedy="send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`; create one with `lakewarden keys create`",
)
UNKNOWN_KEY = Refusal(
    kind="unknown_key",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the API key is unknown, expired or revoked",
    remedy="ask for another one; create one with `lakewarden keys create`",
)
WELL_KNOWN_KEY = Refusal(
    kind="well_known_key",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the API key is the public default of the writer",
    remedy="set the option of the writer that `lakewarden writer-options` prints to a key with the role hook",
)
TWO_KEYS = Refusal(
    kind="two_keys",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the request has more than one API key",
    remedy="send one, in one header",
)
BAD_TOKEN = Refusal(
    kind="bad_token",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the token is refused",
    remedy="ask its issuer for another one; docs/security.md says which tokens count",
)
NO_ROLE = Refusal(
    kind="no_role",
    status=HTTPStatus.FORBIDDEN,
    code="forbidden",
    message="the token gives no role",
    remedy="add a grant to access.issuers",
)
ISSUER_AWAY = Refusal(
    kind="issuer_away",
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="unavailable",
    message="the issuer of the token cannot be reached now",
    remedy="try again, or look for issuer_keys_not_read in the log",
)
NOT_ALLOWED = Refusal(
    kind="not_allowed",
    status=HTTPStatus.FORBIDDEN,
    code="forbidden",
    message="the API key does not have the role of the route for this table",
    remedy="use a key with the role; docs/security.md says which role may do what",
)

REFUSALS = tuple(value for value in list(globals().values()) if isinstance(value, Refusal))
"""The refusals of requests."""

MADE_ROOM, LATE, BODIES, DESCRIPTORS = "made_room", "late", "bodies", "descriptors"

ENDED = {
    MADE_ROOM: "The port had as many connections as it takes, and this one had waited for its client for longest.",
    LATE: "The server waited for the client for longer than 30 s.",
    BODIES: "Bodies and answers that were not read had more than 64 MiB together, and this connection had the most.",
    DESCRIPTORS: "The process may open no more files: raise its limit (ulimit -n).",
}
"""The kinds of connections that are ended without an answer."""


def refused_token(reason: str) -> Refusal:
    """Return the refusal of a token, with its reason."""
    return replace(BAD_TOKEN, message=f"the token is refused: {reason}")


def no_role(reason: str) -> Refusal:
    """Return the refusal of a token that was checked, and that gives no role."""
    return replace(NO_ROLE, message=f"the token gives no role: {reason}")


OnRefusal = Callable[[str, str], None]
"""Gets the kind of each refusal and of each ended connection, with the address of the sender."""
