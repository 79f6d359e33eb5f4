"""A real HTTP server in the place of a webhook: it takes messages, refuses them, hangs, or redirects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def with_status(status: int, **headers: str) -> Answer:
    """Return an answer with this status."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", "2")
        request.end_headers()
        request.wfile.write(b"ok")

    return answer


TAKEN = with_status(200)


class Receiver(ThreadingHTTPServer):
    """Keeps the body of each request. `answer` may be changed at any time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.answer: Answer = TAKEN
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Return its address, with a part that is a secret."""
        return f"http://127.0.0.1:{self.server_port}/services/T0/secret"

    def hang(self, request: BaseHTTPRequestHandler) -> None:
        """Answer nothing until the test is over."""
        self.over.wait(60)

    def drip(self, request: BaseHTTPRequestHandler) -> None:
        """Answer byte by byte, and never to the end."""
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not self.over.wait(0.05):
            request.wfile.write(b"a")
            request.wfile.flush()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Keep the body, then answer as the test says."""
        self.server.paths.append(self.path)
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.server.answer(self)
        except ConnectionError:
            self.close_connection = True

    do_GET = do_POST  # noqa: N815 - the name that http.server asks for

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver inside the `with` block."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        receiver.shutdown()
        receiver.server_close()
        thread.join()
