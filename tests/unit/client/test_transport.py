"""Requests of the client to a daemon, and what it makes of answers that no daemon gives."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakewarden.client import Client, StrangeError


@contextmanager
def _server(status: int, heard: list[str], **headers: str) -> Iterator[str]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_because_another_host_would_get_the_key(status: int) -> None:
    """A daemon redirects nothing, so the address is that of another program."""
    heard: list[str] = []
    with (
        _server(200, heard) as other,
        _server(status, [], Location=f"{other}/x") as url,
        pytest.raises(StrangeError, match="is no Lakewarden daemon"),
    ):
        Client(url, key="lwk_secret").tables()

    assert heard == []


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://a\nb", "http://a b", ""],
)
def test_an_address_that_no_daemon_can_have_is_refused(url: str) -> None:
    """Before a request is made, and in one line."""
    with pytest.raises(ValueError, match=r"address of (the|a) daemon") as refused:
        Client(url)
    assert len(str(refused.value).splitlines()) == 1


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    """Nothing sends it, and a log would keep it."""
    with pytest.raises(ValueError, match="--key-file") as refused:
        Client("http://warden:hunter2@127.0.0.1:8080")
    assert "hunter2" not in str(refused.value)
