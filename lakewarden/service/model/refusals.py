"""The refusals of a port, and their answers. The port makes these answers without the application."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus

from lakewarden.service.model.problems import MEDIA_TYPE, ProblemCode, problem


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One reason to refuse a client. `kind` is its name in metrics and in the log."""

    kind: str
    status: HTTPStatus
    code: ProblemCode
    message: str
    remedy: str | None = None

    @cached_property
    def answer(self) -> bytes:
        """The whole response. After it the connection is closed."""
        said = problem(status=self.status, code=self.code, detail=self.message, remedy=self.remedy)
        body = json.dumps(said, separators=(",", ":")).encode()
        head = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if self.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            head.append("retry-after: 1")
        return "\r\n".join((*head, "", "")).encode() + body


def _malformed(kind: str, message: str) -> Refusal:
    return Refusal(kind=kind, status=HTTPStatus.BAD_REQUEST, code="malformed", message=message)


def _busy(kind: str, message: str, remedy: str) -> Refusal:
    return Refusal(kind=kind, status=HTTPStatus.SERVICE_UNAVAILABLE, code="unavailable", message=message, remedy=remedy)


def _late(kind: str, message: str) -> Refusal:
    return Refusal(kind=kind, status=HTTPStatus.REQUEST_TIMEOUT, code="timeout", message=message)


CONNECTIONS = _busy(
    "connections", "there are too many connections", "try again, or raise limits.connections of this port"
)
CONNECTIONS_BY_SENDER = _busy(
    "connections_by_sender",
    "there are too many connections from this address",
    "close some, or raise limits.connections_by_sender of this port",
)
REQUESTS = _busy("requests", "there are too many requests under way", "try again in a while")
MADE_ROOM = _busy(
    "made_room",
    "the connection was closed to make room for another one",
    "send a request at once",
)
BODIES = _busy(
    "bodies", "the bodies of all requests together are too large", "try again, or raise limits.bodies of this port"
)
DESCRIPTORS = _busy("descriptors", "the process may open no more files", "raise its limit of open files (ulimit -n)")
RATE = Refusal(
    kind="rate",
    status=HTTPStatus.TOO_MANY_REQUESTS,
    code="too_many",
    message="there are too many requests from this address",
    remedy="send fewer, or raise limits.requests_by_sender of this port",
)
NO_FIRST_BYTE = _late("first_byte", "the connection sent nothing")
SLOW_HEAD = _late("head", "the request's head took too long")
SLOW_BODY = _late("body", "the request's body took too long")
UNREAD = _late("unread", "the client did not read the answer")
MALFORMED = _malformed("malformed", "the request is no HTTP/1.1")
BARE_LINE_FEED = _malformed("bare_line_feed", "a line of the request ends without CR")
TWO_LENGTHS = _malformed("two_lengths", "the request gives the length of its body twice")
TRAILERS = _malformed("trailers", "trailers after a chunked body are not taken")
TINY_CHUNKS = _malformed("tiny_chunks", "the body comes in too many small chunks")
LONG_URL = Refusal(
    kind="long_url",
    status=HTTPStatus.REQUEST_URI_TOO_LONG,
    code="too_large",
    message="the address of a request has at most 8192 bytes",
)
LONG_HEAD = Refusal(
    kind="long_head",
    status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    code="too_large",
    message="the head of a request has at most 16384 bytes and 100 headers",
)
LONG_BODY = Refusal(
    kind="long_body",
    status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    code="too_large",
    message="the body of a request is too large",
)
FOREIGN_ORIGIN = Refusal(
    kind="foreign_origin",
    status=HTTPStatus.FORBIDDEN,
    code="forbidden",
    message="a page of another site asked for this",
    remedy="use a client that is no browser, or add the page's host to api.allowed_hosts",
)
UNKNOWN_HOST = Refusal(
    kind="unknown_host",
    status=HTTPStatus.MISDIRECTED_REQUEST,
    code="forbidden",
    message="the request's Host is no name of this daemon",
    remedy="add the name to api.allowed_hosts",
)
NO_KEY = Refusal(
    kind="no_key",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the request has no API key",
    remedy="send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `lakewarden keys create` makes one",
)
UNKNOWN_KEY = Refusal(
    kind="unknown_key",
    status=HTTPStatus.UNAUTHORIZED,
    code="unauthenticated",
    message="the API key is unknown, expired or revoked",
    remedy="ask for another one; `lakewarden keys create` makes one",
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
    message="the issuer of the token cannot be asked now",
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
"""All refusals."""


def refused_token(reason: str) -> Refusal:
    """Return the refusal of a token, with its reason."""
    return replace(BAD_TOKEN, message=f"the token is refused: {reason}")


def no_role(reason: str) -> Refusal:
    """Return the refusal of a token that was checked, and that gives no role."""
    return replace(NO_ROLE, message=f"the token gives no role: {reason}")


OnRefusal = Callable[[Refusal, str], None]
"""Gets each refusal, with the address of the sender."""
