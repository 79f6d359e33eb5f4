"""Requests to a server that is not trusted. The time, the size and the number of its answers are bounded, and so are
its redirects.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

MOST_BYTES = 64 * 2**20
"""The most bytes of one answer, inflated. It is also the most for all answers of a listing together: the names of a
million tables."""

MOST_REQUESTS = 100_000
"""The most requests of a listing. There is one for each namespace, and one for each page of its tables."""

LISTING_SECONDS = 1800.0
"""The longest time of a listing, in seconds."""

_CHUNK = 64 * 1024


class _Left:
    """The requests, bytes and time that a listing may still use."""

    def __init__(self) -> None:
        self.requests = MOST_REQUESTS
        self.bytes = MOST_BYTES
        self.until = time.monotonic() + LISTING_SECONDS


class BoundedAdapter(HTTPAdapter):
    """Reads each answer whole within `seconds`. It keeps as many connections as there are requests `at_once`."""

    def __init__(self, seconds: float, at_once: int) -> None:
        super().__init__(pool_maxsize=at_once)
        self._seconds = seconds
        self._thread = threading.local()

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Bound all requests of this thread inside the `with` block, whatever number of pages and names the server
        returns.
        """
        self._thread.left = _Left()
        try:
            yield
        finally:
            self._thread.left = None

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """Return the answer with its content. Raises a RequestException if the answer exceeds a bound."""
        left: _Left | None = getattr(self._thread, "left", None)
        if left is not None:
            left.requests -= 1
            if left.requests < 0 or time.monotonic() > left.until:
                raise requests.RequestException("its listing does not end")
        until = time.monotonic() + self._seconds
        answer = super().send(request, *arguments, **{**options, "timeout": self._seconds, "stream": True})
        try:
            _check_redirect(request, answer)
            content = _read(answer, until=until, most=MOST_BYTES if left is None else left.bytes)
        except BaseException:
            answer.close()
            raise
        if left is not None:
            left.bytes -= len(content)
        answer._content, answer._content_consumed = content, True  # noqa: SLF001 - as `content` does
        answer.raw.release_conn()
        return answer


def _check_redirect(request: requests.PreparedRequest, answer: requests.Response) -> None:
    """Raise if the server redirects to another host. Lakewarden's token and its place in the network are not for that
    host.
    """
    if not answer.is_redirect:
        return
    target = urlsplit(urljoin(request.url or "", answer.headers["location"])).hostname
    if target != urlsplit(request.url or "").hostname:
        raise requests.exceptions.InvalidURL(f"it sends us to another host: {target}")


def _read(answer: requests.Response, *, until: float, most: int) -> bytes:
    content = bytearray()
    while chunk := _chunk(answer):
        content += chunk
        if len(content) > most:
            raise requests.RequestException(f"its answer is longer than {most} bytes")
        if time.monotonic() > until:
            raise requests.ReadTimeout("its answer does not end")
    return bytes(content)


def _chunk(answer: requests.Response) -> bytes:
    try:
        read: bytes = answer.raw.read1(_CHUNK, decode_content=True)
    except urllib3.exceptions.ReadTimeoutError as slow:
        raise requests.ReadTimeout(str(slow)) from slow
    except urllib3.exceptions.DecodeError as damaged:
        raise requests.exceptions.ContentDecodingError(str(damaged)) from damaged
    except (urllib3.exceptions.HTTPError, OSError) as broken:
        raise requests.ConnectionError(str(broken)) from broken
    return read
