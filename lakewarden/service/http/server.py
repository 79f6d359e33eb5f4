"""One HTTP server in a thread of its own, with a loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType

import anyio.to_thread
import uvicorn
from starlette.types import ASGIApp

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.http_limits import LimitSettings
from lakewarden.service.http.errors import Outermost
from lakewarden.service.http.guard.acceptor import Acceptor
from lakewarden.service.http.guard.door import Door
from lakewarden.service.http.guard.protocol import WatchedProtocol
from lakewarden.service.http.guard.watchful import Count, told_of

_LEAVE_SECONDS = 3
_BACKLOG = 1024
_THREADS = 16
"""So many requests that wait for the store, or make a long answer, are worked on at a time."""


def _uncounted(_port: str, _kind: str) -> None:
    return


class HttpServer:
    """Serves an application until it is left: `with HttpServer(app, host=..., port=...):`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        host: str,
        port: int,
        limits: LimitSettings | None = None,
        always: Collection[str] = (),
        refused: Count = _uncounted,
    ) -> None:
        """Bind the address, so that a taken port is known at start. Raises PermanentError where it cannot.

        `always` are paths that are answered however often they are asked for; `refused` counts what is turned away.
        """
        limits = limits or LimitSettings()
        self._config = uvicorn.Config(
            Outermost(app),
            loop="asyncio",
            http=WatchedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=max(1, round(limits.idle.total_seconds())),
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
        self.name = name
        self._server = uvicorn.Server(self._config)
        self._turned = told_of(name, refused)
        self._door = Door(limits, turned=self._turned, always=always)
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
        with suppress(OSError):
            self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        """Let uvicorn serve what the acceptor lets in. In a thread that is not the main one it leaves signals alone."""
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        loop = asyncio.get_running_loop()
        acceptor = Acceptor(
            self._socket,
            loop=loop,
            door=self._door,
            turned=self._turned,
            protocol=lambda sender: WatchedProtocol(
                self._config, self._server.server_state, loop, door=self._door, sender=sender
            ),
        )
        serving = asyncio.create_task(self._server.serve(sockets=[]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0)
        acceptor.open()
        while not self._server.should_exit and not serving.done():
            await asyncio.sleep(0.05)
        acceptor.close()
        await serving


def _bound(name: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Where the protocol is named, asyncio sends what is written at once (TCP_NODELAY), else after up to 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # who connects before the loop runs waits, and is not refused
    except OSError as taken:
        listening.close()
        raise PermanentError(f"{name} cannot listen on {host}:{port}: {taken.strerror}; set {name}.port") from taken
    return listening
