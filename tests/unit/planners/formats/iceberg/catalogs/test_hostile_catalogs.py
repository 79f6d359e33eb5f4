"""The answers of a catalog are untrusted input. No answer exceeds its time and memory, leads to another host, or runs
without end.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg.catalogs import bounded_http
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from tests.support.serving import Handler, serving

CONFIG = b'{"defaults": {}, "overrides": {}}'


@contextmanager
def catalog(answer: Any) -> Iterator[dict[str, Any]]:
    """Start a server. `answer` gets every request but the first one, which asks for the server's configuration."""

    class Catalog(Handler):
        def do_GET(self) -> None:
            if "/v1/config" in self.path:
                self.answer(200, CONFIG)
            else:
                answer(self)

    with serving(Catalog) as port:
        yield {"type": "rest", "uri": f"http://127.0.0.1:{port}", "timeout": "500ms"}


def test_an_answer_that_comes_byte_by_byte_is_given_up_at_the_time_out(asker: Any) -> None:
    """The time-out is for the whole answer, not for each byte."""

    def drip(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        with suppress(ConnectionError):
            while True:
                request.wfile.write(b" ")
                request.wfile.flush()
                time.sleep(0.1)

    with catalog(drip) as settings, pytest.raises(TemporaryError, match="has not answered in time"):
        asker.where(settings)


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_not_kept(asker: Any, monkeypatch: pytest.MonkeyPatch, *, packed: bool) -> None:
    """The same holds for an answer that is small only while it is compressed."""
    monkeypatch.setattr(bounded_http, "MOST_BYTES", 2**20)
    content = b"0" * 2**24
    sent = gzip.compress(content) if packed else content
    headers = {"Content-Encoding": "gzip"} if packed else {}
    with (
        catalog(lambda request: request.answer(200, sent, headers)) as settings,
        pytest.raises(TemporaryError, match="longer than 1048576 bytes"),
    ):
        asker.where({**settings, "timeout": "10s"})


@pytest.mark.parametrize("content", [b"[" * 200_000, b"9" * 5_000, b'{"metadata-location": 7}', b"\xff\xfe", b""])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_that_is_no_answer_is_trouble_with_a_name(asker: Any, content: bytes, status: int) -> None:
    """It does not raise an error of the code itself."""
    with (
        catalog(lambda request: request.answer(status, content)) as settings,
        pytest.raises(LakewardenError, match="the catalog lake "),
    ):
        asker.where({**settings, "timeout": "10s"})


def test_no_redirect_is_followed_to_another_host(asker: Any) -> None:
    """Neither the token nor a request from our network goes to another host."""
    with (
        catalog(lambda request: request.answer(307, b"", {"Location": "http://169.254.169.254/latest/"})) as settings,
        pytest.raises(TemporaryError, match=r"sends us to another host: 169\.254\.169\.254"),
    ):
        asker.where(settings)


def test_namespaces_below_namespaces_without_end_are_listed_to_a_depth(asker: Any) -> None:
    """A namespace that contains itself ends at the same depth."""

    def deeper(request: Any) -> None:
        if "/tables" in request.path:
            request.answer(200, b'{"identifiers": []}')
            return
        parent = request.path.partition("parent=")[2]
        levels = parent.count("%1F") + 1 if parent else 0
        names = ", ".join('"a"' for _ in range(levels + 1))
        request.answer(200, f'{{"namespaces": [[{names}], ["a"]]}}'.encode())

    with catalog(deeper) as settings:
        assert asker.tables({**settings, "timeout": "10s"}) == []


def test_pages_without_end_are_not_turned_for_ever(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing fails, and no table is removed."""
    monkeypatch.setattr(bounded_http, "MOST_REQUESTS", 50)
    page = b'{"namespaces": [], "next-page-token": "again"}'
    with (
        catalog(lambda request: request.answer(200, page)) as settings,
        pytest.raises(TemporaryError, match="its listing does not end"),
    ):
        asker.tables({**settings, "timeout": "10s"})
