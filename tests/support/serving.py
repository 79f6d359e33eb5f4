"""An HTTP server inside a test, and a handler that sends whole answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_WITHOUT_A_BODY = (204, 304)


class Handler(BaseHTTPRequestHandler):
    """Logs nothing. A subclass says which methods it answers."""

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer with its length."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status not in _WITHOUT_A_BODY:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status not in _WITHOUT_A_BODY:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has in the base class
        """Log nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], *, port: int = 0) -> Iterator[int]:
    """Serve inside the `with` block, each request in a thread of its own. Yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
