"""What keeps a request from costing more than it may: a body limit that holds while the body comes in."""

from __future__ import annotations

from fastapi import Request


class TooLargeError(Exception):
    """The body is larger than it may be."""


async def body_of(request: Request, *, limit: int) -> bytes:
    """Return a request's body. Raises TooLargeError as soon as it is longer than `limit` bytes."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise TooLargeError
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLargeError
        chunks.append(chunk)
    return b"".join(chunks)
