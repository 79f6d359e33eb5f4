"""HTTP that two readers could understand differently, and HTTP that costs too much, is refused."""

from __future__ import annotations

import time

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.http.guard.strict import StrictConnection
from lakewarden.service.model import refusals
from lakewarden.service.model.refusals import Refusal

GOOD = b"POST /v1/hooks/hudi HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def _read(request: bytes, *, parts: int = 1) -> tuple[Refusal | None, bytes]:
    """Return why a request is refused, and its body as far as it was read."""
    connection, body = StrictConnection(lambda _event: None), b""
    size = max(1, -(-len(request) // parts))
    for start in range(0, len(request), size):
        connection.receive_data(request[start : start + size])
        try:
            while isinstance(event := connection.next_event(), h11.Event):
                body += event.data if isinstance(event, h11.Data) else b""
                if isinstance(event, h11.EndOfMessage):
                    return None, body
        except h11.RemoteProtocolError:
            return connection.refusal, body
    return None, body


@pytest.mark.parametrize("parts", [1, 7, 1000])
@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (GOOD, None),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", None),
        (CHUNKED + b"2;a=b\r\n{}\r\n0\r\n\r\n", None),
        (GOOD.replace(b"\r\n", b"\n"), refusals.BARE_LINE_FEED),
        (GOOD.replace(b"Host: x\r\n", b"Host: x\n"), refusals.BARE_LINE_FEED),
        (GOOD.replace(b"\r\n\r\n", b"\r\n\n"), refusals.BARE_LINE_FEED),
        (GOOD.replace(b"Host: x", b"Transfer-Encoding: chunked\r\nHost: x"), refusals.TWO_LENGTHS),
        (GOOD.replace(b"Host: x", b"Content-Length: 2\r\nHost: x"), refusals.TWO_LENGTHS),
        (GOOD.replace(b"Host: x", b"Content-Length: 3\r\nHost: x"), refusals.MALFORMED),
        (GOOD.replace(b": 2", b": " + b"9" * 5000), refusals.MALFORMED),
        (GOOD.replace(b": 2", b": -2"), refusals.MALFORMED),
        (CHUNKED.replace(b"1.1", b"1.0"), refusals.TWO_LENGTHS),
        (CHUNKED.replace(b": chunked", b": gzip, chunked"), refusals.MALFORMED),
        (CHUNKED + b"2\n{}\r\n0\r\n\r\n", refusals.MALFORMED),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\n", refusals.TRAILERS),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", refusals.TRAILERS),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", refusals.MALFORMED),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", refusals.LONG_URL),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 101 + b"\r\n", refusals.LONG_HEAD),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 17_000 + b"\r\n\r\n", refusals.LONG_HEAD),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000, refusals.LONG_HEAD),
        (b"\x16\x03\x01\r\n\r\n", refusals.MALFORMED),
    ],
)
def test_a_request_has_one_meaning_or_none(request_: bytes, refusal: Refusal | None, parts: int) -> None:
    """However it is cut into pieces on its way."""
    assert _read(request_, parts=parts)[0] == refusal


def test_small_chunks_are_few() -> None:
    """A body of single bytes costs a thousand times what it brings; it is refused after some."""
    begun = time.process_time()

    refusal, body = _read(CHUNKED + b"1\r\nx\r\n" * 100_000)

    assert refusal is refusals.TINY_CHUNKS
    assert len(body) < 2000
    assert time.process_time() - begun < 30


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=40), st.integers(1, 50))
def test_whatever_is_sent_in_chunks_arrives(chunks: list[bytes], parts: int) -> None:
    """The bound is beyond what honest senders do."""
    sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"

    assert _read(CHUNKED + sent, parts=parts) == (None, b"".join(chunks))


@given(st.binary(max_size=400), st.integers(1, 20))
def test_whatever_comes_is_a_request_or_refused(sent: bytes, parts: int) -> None:
    """Nothing else is raised, for which there would be a traceback."""
    _read(sent, parts=parts)
    _read(GOOD.replace(b"x", sent), parts=parts)
