"""Strict HTTP/1.1, for a server behind a proxy: a request that two programs could understand differently is refused.

h11 accepts lines that end with LF alone, and a `Content-Length` beside `Transfer-Encoding`. If a head comes in one
piece, it accepts any size (`h11/_readers.py`, `_receivebuffer.py`, 0.16).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import h11

from lakewarden.service.config.daemon.http_limits import BODY_BYTES, HEAD_BYTES, HEADERS, URL_BYTES
from lakewarden.service.model.refusals import (
    BARE_LINE_FEED,
    LONG_BODY,
    LONG_HEAD,
    LONG_URL,
    MALFORMED,
    TINY_CHUNKS,
    TRAILERS,
    TWO_LENGTHS,
    Refusal,
)

_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:", re.IGNORECASE | re.MULTILINE)
_END_OF_CHUNKS = b"\r\n\r\n"
_CHUNKS = 1024
_BYTES_OF_A_CHUNK = 512
"""So many chunks may be small. The others have this size on average."""

_TO_THE_END = 2 * BODY_BYTES
"""The body of a refused request is read to its end, so that its sender reads the answer, but no further than this."""

Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class StrictConnection(h11.Connection):
    """The server side of a connection. If it raises RemoteProtocolError, `refusal` has the reason."""

    def __init__(self, seen: Callable[[h11.Event], Refusal | None]) -> None:
        """`seen` gets every event, and may refuse it."""
        super().__init__(h11.SERVER, HEAD_BYTES)
        self.refusal: Refusal | None = None
        self._seen = seen
        self._wire = b""
        self._chunked = False
        self._chunks = 0
        self._bytes = 0

    def receive_data(self, data: bytes) -> None:
        """Add the received bytes."""
        self._wire = self._wire[-len(_END_OF_CHUNKS) :] + data
        super().receive_data(data)

    def next_event(self) -> Event:
        """Return the next event. Raises h11.RemoteProtocolError."""
        before = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        try:
            event = super().next_event()
        except h11.RemoteProtocolError:
            self.refusal = LONG_HEAD if len(before) > HEAD_BYTES else MALFORMED
            raise
        except ValueError as wrong:  # a number with thousands of digits
            self.refusal = MALFORMED
            raise h11.RemoteProtocolError(str(wrong)) from wrong
        refusal = self._judged(event, before)
        if refusal is not None:
            self.refusal = refusal
            raise h11.RemoteProtocolError(refusal.message)
        return event

    def _judged(self, event: Event, before: bytes) -> Refusal | None:
        if not isinstance(event, h11.Event):
            return None
        wrong = None
        if isinstance(event, h11.Request):
            wrong = self._head(event, before)
        elif isinstance(event, h11.Data):
            wrong = self._chunk(event)
        elif isinstance(event, h11.EndOfMessage):
            wrong = self._end(event)
        return wrong or self._seen(event)

    def _head(self, request: h11.Request, before: bytes) -> Refusal | None:
        head = before[: len(before) - len(self.trailing_data[0])]
        names = [name for name, _ in request.headers]
        self._chunked = b"transfer-encoding" in names
        self._chunks = self._bytes = 0
        if len(request.target) > URL_BYTES:
            return LONG_URL
        if len(head) > HEAD_BYTES or len(names) > HEADERS:
            return LONG_HEAD
        if _BARE_LINE_FEED.search(head):
            return BARE_LINE_FEED
        lengths = len(_LENGTH.findall(head))
        if lengths > 1 or (self._chunked and (lengths or request.http_version < b"1.1")):
            return TWO_LENGTHS
        return MALFORMED if request.method == b"CONNECT" else None

    def _chunk(self, data: h11.Data) -> Refusal | None:
        self._bytes += len(data.data)
        if self._bytes > _TO_THE_END:
            return LONG_BODY
        self._chunks += data.chunk_start
        return TINY_CHUNKS if self._chunks > _CHUNKS + self._bytes // _BYTES_OF_A_CHUNK else None

    def _end(self, end: h11.EndOfMessage) -> Refusal | None:
        if not self._chunked:
            return None
        ended_at = len(self._wire) - len(self.trailing_data[0])
        if end.headers or not self._wire[:ended_at].endswith(_END_OF_CHUNKS):
            return TRAILERS
        return None
