"""One HTTP server in a thread of its own, with a loop of its own."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

import uvicorn
from fastapi import FastAPI

from lakewarden.planners.model.errors import PermanentError

_CONNECTIONS = 512
_LEAVE_SECONDS = 3


class HttpServer:
    """Serves an application until it is left: `with HttpServer(app, host=..., port=...):`."""

    def __init__(self, app: FastAPI, *, name: str, host: str, port: int) -> None:
        """Bind the address, so that a taken port is known at start. Raises PermanentError where it cannot."""
        config = uvicorn.Config(
            app,
            http="h11",  # it bounds the size of headers, which the faster parser does not
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._socket = _bound(name, host, port)
        self._thread = threading.Thread(target=self._serve, name=f"http-{name}", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> HttpServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=_LEAVE_SECONDS * 2)
        self._socket.close()

    def _serve(self) -> None:
        # In a thread that is not the main one uvicorn leaves signals alone: they are the daemon's.
        self._server.run(sockets=[self._socket])


def _bound(name: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # who connects before the loop runs waits, and is not refused
    except OSError as taken:
        listening.close()
        raise PermanentError(f"{name} cannot listen on {host}:{port}: {taken.strerror}; set {name}.port") from taken
    return listening
