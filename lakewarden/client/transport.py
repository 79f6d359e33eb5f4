"""How the client sends a request and reads its answer. It needs the standard library only."""

from __future__ import annotations

import json
import time
import types
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from typing import (
    Any,
    ClassVar,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from lakewarden.client.bodies import ProblemBody

# Whether a value of JSON has the fields and the types of a body. A daemon of another version may answer.


def misfit(value: Any, kind: Any) -> str | None:
    """Return where a value is not of a type, and None if it fits.

    A field that the type does not know is no misfit: a newer daemon may send it. For the same reason the values of an
    enum are not compared.
    """
    return next(_misfits(value, kind, "the answer"), None)


def _misfits(value: Any, kind: Any, at: str) -> Iterator[str]:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin in (Union, types.UnionType):
        if all(next(_misfits(value, part, at), None) for part in parts):
            yield f"{at} is {_named(value)}"
    elif not _is_a(value, {list: list, dict: Mapping, Literal: str}.get(origin, kind)):
        yield f"{at} is {_named(value)}"
    elif origin is list:
        for number, member in enumerate(value):
            yield from _misfits(member, parts[0], f"{at}[{number}]")
    elif origin is dict:
        for member in value.values():
            yield from _misfits(member, parts[1], f"{at}[...]")
    elif is_typeddict(kind):
        for name, (field, required) in _fields(kind).items():
            if name in value:
                yield from _misfits(value[name], field, f"{at}.{name}")
            elif required:
                yield f"{at}.{name} is missing"


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field of a body, and whether the field is required."""
    fields = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(hint) is NotRequired
        fields[name] = (get_args(hint)[0] if optional else hint, not optional)
    return fields


def _is_a(value: Any, kind: Any) -> bool:
    if is_typeddict(kind):
        return isinstance(value, Mapping)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _named(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )


# What may happen instead of an answer of a daemon.


class ClientError(Exception):
    """The base of every error of the client. `problem` is the body of the error, if a daemon has sent one."""

    def __init__(self, message: str, *, status: int | None = None, problem: ProblemBody | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class DaemonAwayError(ClientError):
    """No daemon answers. Trying again later may succeed. `broke`: the connection was there, and broke."""

    def __init__(self, message: str, *, broke: bool = False) -> None:
        super().__init__(message)
        self.broke = broke


class DaemonBusyError(ClientError):
    """The daemon cannot answer now (429, 503). Trying again later may succeed."""


class NotAllowedError(ClientError):
    """The key is missing or unknown (401), or does not have the role for this (403)."""


class NotFoundError(ClientError):
    """There is no such table, service, run or hold (404)."""


class ConflictError(ClientError):
    """It cannot be done now (409, 412)."""


class InvalidError(ClientError):
    """A value of the request is invalid, or too long (400, 413, 414, 422, 431)."""


class StrangeError(ClientError):
    """The answer is not that of a daemon of this version, or the daemon has an internal error (500)."""


DAEMON = "http://127.0.0.1:8080"
"""The address of a daemon with the default settings, on the same machine."""

_T = TypeVar("_T")

_FIRST_PAUSE_SECONDS = 0.5
_READ_SECONDS = 10.0
_REPEATS = 4
_MOST_BYTES = 64 * 1024 * 1024
_ERRORS: Mapping[int, type[ClientError]] = {
    400: InvalidError,
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    413: InvalidError,
    414: InvalidError,
    422: InvalidError,
    431: InvalidError,
    429: DaemonBusyError,
    503: DaemonBusyError,
}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A daemon redirects no request. Another program could have the API key sent to another host."""

    def redirect_request(self, *_args: object) -> None:
        """Follow no redirect. Its answer is then an error."""


# The daemon is in the same network. A proxy for other networks cannot reach it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())


def _require_address(url: str) -> None:
    """Raise ValueError if a daemon cannot have this address. The error does not repeat a password."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as wrong:
        raise ValueError(f"the address of the daemon cannot be used ({wrong}): write one such as {DAEMON}") from wrong
    if "@" in parts.netloc:
        raise ValueError("the address of the daemon has a user or a password: send an API key, as with --key-file")
    if not usable or not url.isprintable() or " " in url:
        raise ValueError(f"{url!r} is not an address of a daemon: it begins with http:// or https://, as {DAEMON} does")


class Transport:
    """A daemon at an address. Each request opens a connection of its own, so several threads may use one client."""

    PAGE: ClassVar[int] = 1000
    """How many items a request for all pages asks for at a time."""

    def __init__(
        self,
        url: str = DAEMON,
        *,
        key: str | None = None,
        timeout: float = 40.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the address of a daemon, and an API key. `timeout` is how many seconds the daemon may be silent after a
        command: it may read the table before it answers, and gives up after 30 s. Other requests wait 10 s at most.

        If the connection of a command breaks, the command is sent again, four times at most, after `pause` has
        waited for 0.5, 1, 2 and 4 s. An act that is sent twice acts once: a trigger returns the active run.

        Raises ValueError if the address is not of HTTP, or if the key cannot be sent in a header.
        """
        _require_address(url)
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError("this is not an API key: a key is one line of ASCII")
        self.url = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._pause = pause

    def each(self, page: Callable[..., Any], **query: Any) -> Iterator[Any]:
        """Yield the items of all pages of a list: `client.each(client.runs, table="sales.orders")`. Raises StrangeError
        if a page leads to itself.
        """
        after = None
        while True:
            body = page(**query, after=after, limit=self.PAGE)
            yield from body["items"]
            following = body.get("next")
            if following is None:
                return
            if following == after:
                raise StrangeError(f"the page after {after!r} leads to itself")
            after = following

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: object = None,
        answer: type[_T] | types.UnionType | None = None,
    ) -> _T:
        """Return the answer to a request. Raises ClientError."""
        request = urllib.request.Request(self._address(path, query), method=method)  # noqa: S310 - HTTP, see above
        for name, value in (headers or {}).items():
            if value is not None:
                request.add_header(name, value)
        if self._key is not None:
            request.add_header("Authorization", f"Bearer {self._key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        content = self._answer(request) if method == "GET" else self._patiently(request)
        if answer is None:
            return cast(_T, None)
        if (wrong := misfit(content, answer)) is not None:
            raise StrangeError(f"the program at {self.url} is not a Lakewarden daemon of this version: {wrong}")
        return cast(_T, content)

    def _patiently(self, request: urllib.request.Request) -> Any:
        """Return the answer to a request that acts. It is sent again if the connection broke before the answer."""
        for attempt in range(_REPEATS):
            try:
                return self._answer(request)
            except DaemonAwayError as away:
                if not away.broke and attempt == 0:
                    raise
            self._pause(_FIRST_PAUSE_SECONDS * 2**attempt)
        return self._answer(request)

    def _answer(self, request: urllib.request.Request) -> Any:
        within = min(self._timeout, _READ_SECONDS) if request.method == "GET" else self._timeout
        try:
            with _OPENER.open(request, timeout=within) as response:
                if response.status == HTTPStatus.NO_CONTENT:
                    return None
                content = response.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise StrangeError(f"the answer of the program at {self.url} is larger than {_MOST_BYTES} bytes")
            return json.loads(content)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise self._refusal(refusal) from refusal
        except (OSError, IncompleteRead) as away:
            reason = " ".join(str(getattr(away, "reason", None) or away or type(away).__name__).split())
            raise DaemonAwayError(f"no daemon answers at {self.url} ({reason})", broke=_broke(away)) from away
        except HTTPException as strange:  # such as the greeting of an SSH server
            raise StrangeError(
                f"the program at {self.url} does not speak HTTP: it is not a Lakewarden daemon"
            ) from strange
        except (ValueError, RecursionError) as strange:
            raise StrangeError(f"the program at {self.url} is not a Lakewarden daemon") from strange

    def _refusal(self, refusal: urllib.error.HTTPError) -> ClientError:
        try:
            problem = json.loads(refusal.read(_MOST_BYTES))
        except (OSError, HTTPException, ValueError, RecursionError):
            problem = None
        if misfit(problem, ProblemBody) is not None:
            return StrangeError(f"the program at {self.url} is not a Lakewarden daemon ({refusal.code})")
        sentence = "; ".join(part for part in (problem["detail"], problem.get("remedy")) if part)
        kind = _ERRORS.get(refusal.code, StrangeError)
        return kind(f"the daemon at {self.url} says: {sentence}", status=refusal.code, problem=problem)

    def _address(self, path: str, query: Mapping[str, Any] | None) -> str:
        parameters = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (query or {}).items()
            if value is not None
        }
        return f"{self.url}{path}{'?' if parameters else ''}{urllib.parse.urlencode(parameters, doseq=True)}"

    @staticmethod
    def _quoted(part: str) -> str:
        return urllib.parse.quote(part, safe="")


def _broke(away: OSError | HTTPException) -> bool:
    """Whether a connection broke that was there, so that the request may have been carried out."""
    return isinstance(getattr(away, "reason", away), ConnectionResetError | BrokenPipeError | IncompleteRead)
