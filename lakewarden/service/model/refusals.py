"""What a port turns away, and the answer that it gets: the one shape of every error, made without the application."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One reason to turn a client away. `kind` is its name in metrics and in the log."""

    kind: str
    status: HTTPStatus
    code: str
    message: str
    remedy: str | None = None

    @cached_property
    def answer(self) -> bytes:
        """The whole response, after which the connection is closed."""
        said = {"error": {"code": self.code, "message": self.message, "remedy": self.remedy}}
        body = json.dumps(said, separators=(",", ":")).encode()
        head = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "content-type: application/json",
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
MADE_ROOM = _busy("made_room", "the connection was closed to make room for another one", "send requests at once")
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
NO_FIRST_BYTE = _late("first_byte", "the connection said nothing")
SLOW_HEAD = _late("head", "the request's head took too long")
SLOW_BODY = _late("body", "the request's body took too long")
UNREAD = _late("unread", "the answer was not taken")
MALFORMED = _malformed("malformed", "the request is no HTTP/1.1")
BARE_LINE_FEED = _malformed("bare_line_feed", "a line of the request ends without CR")
TWO_LENGTHS = _malformed("two_lengths", "the length of the body is said twice")
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

REFUSALS = tuple(value for value in list(globals().values()) if isinstance(value, Refusal))
"""All of them."""

Turned = Callable[[Refusal, str], None]
"""Told of each refusal, and of the sender's address."""
