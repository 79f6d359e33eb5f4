"""Requests of the daemon to an issuer or an API server: bounded in time and in size, and without redirects."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from lakewarden.planners.model.errors import TemporaryError

_SECONDS = 5.0
_BYTES = 256 * 2**10
_AT_ONCE = 16 * 2**10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would let another host answer, and send the token of the daemon there."""

    def redirect_request(self, *_args: object) -> None:
        """Follow no redirect. Its answer is then an error."""


def asked(
    url: str,
    *,
    authority: Path | None,
    body: Mapping[str, Any] | None = None,
    token: str | None = None,
    most: int = _BYTES,
) -> Mapping[str, Any]:
    """Return the JSON object that a server answers to a GET, or to a POST of `body`.

    Raises TemporaryError if there is none within five seconds and `most` bytes. `authority` is a file with the
    authorities of the server, or None for those of the system.
    """
    content = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    give_up = time.monotonic() + _SECONDS
    try:
        context = ssl.create_default_context(cafile=authority)
        opener = urllib.request.build_opener(_NoRedirects(), urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(url, content, headers)  # noqa: S310 - the settings allow https, and http here
        with opener.open(request, timeout=_SECONDS) as answer:
            found = json.loads(_read(answer, give_up, most))
    except (OSError, HTTPException, ValueError, RecursionError) as away:
        raise TemporaryError(f"{url} does not answer as it should: {getattr(away, 'reason', None) or away}") from away
    if not isinstance(found, dict):
        raise TemporaryError(f"{url} does not answer as it should: its answer is no JSON object")
    return found


def _read(answer: HTTPResponse, give_up: float, most: int) -> bytes:
    content = b""
    while read := answer.read1(_AT_ONCE):
        content += read
        if len(content) > most:
            raise ValueError(f"its answer has more than {most} bytes")
        if time.monotonic() > give_up:
            raise TimeoutError(f"its answer took longer than {_SECONDS:g} s")
    return content
