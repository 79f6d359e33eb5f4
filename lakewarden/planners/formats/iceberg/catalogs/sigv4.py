"""Requests to a REST catalog are signed with Amazon's signature (version 4), as Glue and S3 Tables require it.

Source: Iceberg 1.11, `aws.RESTSigV4AuthSession`: the digest of the body is a header, and the path is encoded twice.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from typing import Any

import requests

from lakewarden.planners.formats.iceberg.catalogs.bounded_http import BoundedAdapter
from lakewarden.planners.formats.iceberg.catalogs.settings import SigV4
from lakewarden.planners.model.errors import PermanentError

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
            f"the catalog {catalog} is asked with signed requests (sigv4), which needs botocore: "
            "pip install 'lakewarden[sigv4]'"
        )
    from botocore.auth import SigV4Auth  # noqa: PLC0415 - an optional package
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - likewise

    keys = _keys(settings)

    def sign(request: requests.PreparedRequest) -> None:
        found = keys()
        if found is None:
            raise PermanentError(
                f"the requests to the catalog {catalog} cannot be signed: there are no keys of Amazon in the "
                f"environment, and none in catalogs.{catalog}.sigv4"
            )
        content = _content(request.body)
        given = {_DIGEST: hashlib.sha256(content).hexdigest()}
        if "Content-Type" in request.headers:
            given["Content-Type"] = str(request.headers["Content-Type"])
        made = AWSRequest(method=request.method, url=request.url, data=content, headers=given)
        SigV4Auth(found, settings.service, settings.region).add_auth(made)
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
    found = get_session().get_credentials()
    return lambda: None if found is None else found.get_frozen_credentials()
