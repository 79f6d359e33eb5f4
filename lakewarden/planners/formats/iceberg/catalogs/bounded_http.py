"""Requests to a server that is not trusted. The time, the size and the number of its answers are bounded, and so are
its redirects.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from lakewarden.planners.formats.iceberg.catalogs.settings import SigV4
from lakewarden.planners.model.errors import PermanentError, installing

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


# Requests to a REST catalog are signed with Amazon's signature (version 4), as Glue and S3 Tables require it.
#
# Source: Iceberg 1.11, `aws.RESTSigV4AuthSession`: the digest of the body is a header, and the path is encoded twice.

Sign = Callable[[requests.PreparedRequest], None]
"""Adds the headers of a signature to a request. Raises PermanentError if there are no keys."""

_DIGEST = "X-Amz-Content-SHA256"


class SigningAdapter(BoundedAdapter):
    """Signs each request, also the one after a redirect."""

    def __init__(self, seconds: float, at_once: int, sign: Sign) -> None:
        super().__init__(seconds, at_once)
        self._sign = sign

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """Return the answer to the signed request. Raises the same errors as BoundedAdapter, and PermanentError if
        there are no keys.
        """
        self._sign(request)
        return super().send(request, *arguments, **options)


def signer(settings: SigV4, *, catalog: str) -> Sign:
    """Return the function that signs. Its keys are those of the settings, else those that botocore finds in the
    environment.

    Raises PermanentError if botocore is not installed, or a secret is missing.
    """
    if importlib.util.find_spec("botocore") is None:
        raise PermanentError(
            f"the catalog {catalog} is asked with signed requests (sigv4), which needs botocore: " + installing("sigv4")
        )
    from botocore.auth import SigV4Auth  # noqa: PLC0415 - an optional package
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - likewise

    keys = _keys(settings)

    def sign(request: requests.PreparedRequest) -> None:
        credentials = keys()
        if credentials is None:
            raise PermanentError(
                f"the requests to the catalog {catalog} cannot be signed: there are no keys of Amazon in the "
                f"environment, and none in catalogs.{catalog}.sigv4"
            )
        content = _content(request.body)
        given = {_DIGEST: hashlib.sha256(content).hexdigest()}
        if "Content-Type" in request.headers:
            given["Content-Type"] = str(request.headers["Content-Type"])
        made = AWSRequest(method=request.method, url=request.url, data=content, headers=given)
        SigV4Auth(credentials, settings.service, settings.region).add_auth(made)
        request.headers.update(dict(made.headers.items()))

    return sign


def _content(body: object) -> bytes:
    """Return the body of a request. pyiceberg sends texts and bytes alone."""
    match body:
        case None:
            return b""
        case bytes():
            return body
        case str():
            return body.encode()
        case _:
            raise PermanentError(f"a request with a body of {type(body).__name__} cannot be signed")


def _keys(settings: SigV4) -> Callable[[], Any]:
    """Return the function that returns the present keys. botocore itself renews the keys of a role."""
    from botocore.credentials import Credentials  # noqa: PLC0415 - an optional package
    from botocore.session import get_session  # noqa: PLC0415 - likewise

    if settings.access_key is not None and settings.secret_key is not None:
        fixed = Credentials(settings.access_key.value(), settings.secret_key.value()).get_frozen_credentials()
        return lambda: fixed
    credentials = get_session().get_credentials()
    return lambda: None if credentials is None else credentials.get_frozen_credentials()
