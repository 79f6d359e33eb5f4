"""The check of Amazon's signature (version 4) by a server, written from the documents, without the library that signs.

Source: AWS, "Create a signed AWS API request"; every service but S3 encodes the path a second time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from email.message import Message
from urllib.parse import parse_qsl, quote, urlsplit

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>\d{8}/[^/]+/[^/]+/aws4_request), "
    r"SignedHeaders=(?P<headers>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def verifier(
    access_key: str, secret_key: str, *, service: str, region: str
) -> Callable[[str, str, Message, bytes], bool]:
    """Return the function that checks whether a request (method, address, headers, body) is signed with these keys."""

    def verify(method: str, address: str, headers: Message, body: bytes) -> bool:
        told = _SIGNED.fullmatch(headers.get("Authorization", ""))
        digest = hashlib.sha256(body).hexdigest()
        if told is None or told["key"] != access_key or headers.get("X-Amz-Content-SHA256") != digest:
            return False
        day, of_region, of_service, _ = told["scope"].split("/")
        names = told["headers"].split(";")
        if (of_region, of_service) != (region, service) or not {"host", "x-amz-date"} <= set(names):
            return False
        parts = urlsplit(address)
        query = "&".join(
            f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}"
            for key, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
        )
        signed = "".join(f"{name}:{' '.join((headers.get(name) or '').split())}\n" for name in names)
        canonical = "\n".join((method, quote(parts.path, safe="/-_.~"), query, signed, told["headers"], digest))
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256",
                headers.get("X-Amz-Date", ""),
                told["scope"],
                hashlib.sha256(canonical.encode()).hexdigest(),
            )
        )
        key = f"AWS4{secret_key}".encode()
        for part in (day, region, service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), told["signature"])

    return verify
