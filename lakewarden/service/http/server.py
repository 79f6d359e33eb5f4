"""One HTTP server with a thread and a loop of its own."""

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
from lakewarden.service.config.daemon.http_limits import LimitSettings
from lakewarden.service.config.identity.tls import TlsSettings
from lakewarden.service.http.errors import Outermost
from lakewarden.service.http.guard.acceptor import Acceptor
from lakewarden.service.http.guard.admission import Admission
from lakewarden.service.http.guard.certificates import Certificates
from lakewarden.service.http.guard.protocol import WatchedProtocol
from lakewarden.service.http.guard.watchful import Count, told_of

_LEAVE_SECONDS = 3
_BACKLOG = 1024
_THREADS = 16
"""So many requests that wait for the store, or make a long answer, are handled at a time."""


def _uncounted(_port: str, _kind: str) -> None:
    return


class HttpServer:
    """Serves an application inside a `with` block: `with HttpServer(app, host=..., port=...):`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        host: str,
        port: int,
        limits: LimitSettings | None = None,
        tls: TlsSettings | None = None,
        always: Collection[str] = (),
        refused: Count = _uncounted,
    ) -> None:
        """Bind the address, so that a taken port is known at the start. Raises PermanentError if that fails, or if the
        certificate of `tls` cannot be used.

        `always` are paths without a limit of requests. `refused` counts the refusals.
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
        self._certificates = None if tls is None else Certificates(name, tls)
        self._handshake_seconds = limits.first_byte.total_seconds()
        self._server = uvicorn.Server(self._config)
        self._on_refusal = told_of(name, refused)
        self._admission = Admission(limits, on_refusal=self._on_refusal, always=always)
        self._socket = _bound(name, host, port)
        self._thread = threading.Thread(target=self._serve, name=f"http-{name}", daemon=True)

    @property
    def port(self) -> int:
        """The port of the socket."""
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
        """Let uvicorn serve the connections of the acceptor. Outside the main thread uvicorn does not handle
        signals.
        """
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        loop = asyncio.get_running_loop()
        acceptor = Acceptor(
            self._socket,
            loop=loop,
            admission=self._admission,
            on_refusal=self._on_refusal,
            certificates=self._certificates,
            handshake_seconds=self._handshake_seconds,
            protocol=lambda sender: WatchedProtocol(
                self._config,
                self._server.server_state,
                loop,
                admission=self._admission,
                sender=sender,
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
    # If the protocol is named, asyncio sends at once (TCP_NODELAY), otherwise after up to 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # connections before the start of the loop wait, and are not refused
    except OSError as taken:
        listening.close()
        raise PermanentError(f"{name} cannot listen on {host}:{port}: {taken.strerror}; set {name}.port") from taken
    return listening
